#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

#include "planner/frameworks/registry.h"
#include "planner/search/evaluator.h"
#include "planner/search/space.h"
#include "simulator/closed_form/recalled_trainer.h"
#include "simulator/hardware/library.h"
#include "tests/support/data.h"

namespace headroom::search {
namespace {

using Order = Knob::Order;

/// What a search draws bounds from: where a knob's order is declared, the value that is faster must not need
/// less memory in any phase, nor may the step be slower. Held against neighbours of random configurations.
class Orders : public ::testing::TestWithParam<const char*> {};

TEST_P(Orders, HoldBetweenRandomNeighbours) {
  JobOptions options;
  options.steps = 2;
  const auto read = read_job(std::array{test::source(GetParam()).string()}, options);
  ASSERT_TRUE(read) << read.error().text();
  const Framework& framework = *find_framework(read->job.framework);
  search::Setup setup;
  setup.framework = &framework;
  setup.read = &*read;
  setup.hardware = load_hardware(read->job.gpu).value();
  setup.limits.card = setup.limits.budget = 1000 * kGiB;  // nothing runs out
  const Space space = make_space(framework.knobs(*read), {}, {}).value();
  const MakeTrainer recalled = closed_form::recalled(std::make_shared<closed_form::CostBook>(setup.hardware));
  const Executor executor = [&](const Job& job, const Hardware& hardware) {
    return run_on_device(job, hardware, recalled, "closed_form");
  };
  const Evaluator evaluate(setup, space, executor, 1);
  std::mt19937 random(31);
  std::map<std::string, int> held;
  for (int draw = 0; draw < 25; ++draw) {
    Point point;
    for (const Dimension& dimension : space.dimensions)
      point.push_back(static_cast<std::uint16_t>(random() % dimension.values.size()));
    for (std::size_t i = 0; i < point.size(); ++i) {
      const Knob& knob = space.dimensions[i].knob;
      if (knob.order == Order::none || knob.order == Order::exact_only) continue;
      if (random() % 3 != 0) continue;
      std::array<Point, 2> pair{point, point};  // frugal, fast
      const std::size_t values = space.dimensions[i].values.size(), first = random() % (values - 1);
      pair[0][i] = static_cast<std::uint16_t>(first);
      pair[1][i] = static_cast<std::uint16_t>(first + 1);
      if (knob.order == Order::falls) std::swap(pair[0], pair[1]);
      const std::vector<Outcome> outcomes = evaluate(pair);
      const Outcome &frugal = outcomes[0], &fast = outcomes[1];
      if (!frugal.valid || !fast.valid || frugal.breaks || fast.breaks) continue;
      ++held[knob.name];
      std::string where = knob.name + ":";
      for (std::size_t k = 0; k < point.size(); ++k)
        where += " " + space.dimensions[k].knob.name + "=" + space.dimensions[k].values[pair[0][k]];
      SCOPED_TRACE(where);
      EXPECT_LE(fast.seconds, frugal.seconds * 1.0002);
      if (knob.order == Order::window) continue;
      ASSERT_EQ(fast.phases.size(), frugal.phases.size());
      for (std::size_t p = 0; p < fast.phases.size(); ++p)
        EXPECT_LE(fast.phases[p].spare, frugal.phases[p].spare + kMiB) << fast.phases[p].phase;
    }
  }
  EXPECT_GE(held.size(), 5u);
}

INSTANTIATE_TEST_SUITE_P(Examples, Orders,
                         ::testing::Values("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml",
                                           "configs/examples/verl/llama-3.1-8b-ppo-8xh100.yaml",
                                           "configs/examples/verl/qwen3-8b-grpo-fsdp2-8xh200.yaml"));

}  // namespace
}  // namespace headroom::search

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

#include "planner/cli/executors.h"
#include "planner/frameworks/registry.h"
#include "planner/search/evaluator.h"
#include "planner/search/phase_groups.h"
#include "simulator/hardware/library.h"
#include "tests/support/data.h"

namespace headroom::search {
namespace {

/// What a search draws bounds from: phases that a knob says it does not touch stay as they are when it turns, and
/// towards the ends it names phases are not slower, or take no more. Held against neighbours of random
/// configurations of every framework that searches by tables.
class Effects : public ::testing::TestWithParam<const char*> {};

/// Configurations drawn of each run; HEADROOM_EFFECTS=N draws N.
int draws() {
  const char* text = std::getenv("HEADROOM_EFFECTS");
  return text == nullptr ? 14 : std::max(1, std::atoi(text));
}

struct Sums {
  double seconds = 0;
  Bytes spare = 1 << 30;
};

std::optional<Sums> of_group(const PhaseGroup& group, const Outcome& outcome) {
  Sums sums;
  bool any = false;
  for (const PhaseOutcome& phase : outcome.phases) {
    if (std::find(group.phases.begin(), group.phases.end(), phase.phase) == group.phases.end()) continue;
    sums.seconds += phase.seconds;
    sums.spare = any ? std::min(sums.spare, phase.spare) : phase.spare;
    any = true;
  }
  return any ? std::optional(sums) : std::nullopt;
}

TEST_P(Effects, HoldBetweenRandomNeighbours) {
  JobOptions options;
  options.steps = 2;
  const auto read = read_job(std::array{test::source(GetParam()).string()}, options);
  ASSERT_TRUE(read) << read.error().text();
  const Framework& framework = *find_framework(read->job.framework);
  search::Setup setup;
  setup.framework = &framework;
  setup.read = &*read;
  setup.hardware = load_hardware(read->job.gpu.empty() ? "h200" : read->job.gpu).value();  // scripts name no card
  setup.limits.card = setup.limits.budget = 1000 * kGiB;  // nothing runs out
  const Space space = make_space(framework.knobs(*read), {}, {}).value();
  const std::vector<PhaseGroup> groups = phase_groups(read->job, space);
  const Executors executors = cli::planning_executors();
  std::vector<Executor> own;
  for (const PhaseGroup& group : groups) own.push_back(executors.own(group.phases));
  std::mt19937 random(31);
  std::map<std::string, int> held;
  for (int draw = 0; draw < draws(); ++draw) {
    Point point;
    for (const Dimension& dimension : space.dimensions)
      point.push_back(static_cast<std::uint16_t>(random() % dimension.values.size()));
    for (std::size_t i = 0; i < point.size(); ++i) {
      const Knob& knob = space.dimensions[i].knob;
      if (random() % 2 != 0) continue;
      std::array<Point, 2> pair{point, point};  // earlier value, later value
      const std::size_t values = space.dimensions[i].values.size(), first = random() % (values - 1);
      pair[0][i] = static_cast<std::uint16_t>(first);
      pair[1][i] = static_cast<std::uint16_t>(first + 1 + random() % (values - first - 1));
      const std::vector<Outcome> whole = Evaluator(setup, space, executors.quick, 1)(pair);
      if (!whole[0].valid || !whole[1].valid || whole[0].breaks || whole[1].breaks) continue;
      ++held[knob.name];
      std::string where = knob.name + " " + space.dimensions[i].values[pair[0][i]] + " to " +
                          space.dimensions[i].values[pair[1][i]] + " at";
      for (std::size_t k = 0; k < point.size(); ++k)
        where += " " + space.dimensions[k].knob.name + "=" + space.dimensions[k].values[pair[0][k]];
      SCOPED_TRACE(where);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const PhaseGroup& group = groups[g];
        const std::vector<Outcome> outcomes = Evaluator(setup, space, own[g], 1)(pair);
        const DimensionEffect& effect = group.effects[i];
        const std::optional<Sums> earlier = of_group(group, outcomes[0]), later = of_group(group, outcomes[1]);
        ASSERT_EQ(earlier.has_value(), later.has_value());
        if (!earlier || knob.exact_only) continue;
        SCOPED_TRACE(group.phases.front());
        if (!effect.seconds) {
          EXPECT_NEAR(later->seconds, earlier->seconds, 1e-4 * earlier->seconds + 1e-6);
        }
        if (!effect.memory) {
          EXPECT_LE(std::abs(later->spare - earlier->spare), kMiB);
        }
        const auto on = [&](std::optional<std::size_t> flag) {
          return flag && space.dimensions[*flag].values[point[*flag]] == "true";
        };
        const bool flagged = on(effect.time_unless);
        const double allowed = 1.0002 / (1 - (flagged ? effect.slack_unless : effect.slack));
        const bool ends = !flagged || effect.slack_unless > 0, memory_ends = !on(effect.memory_unless);
        const bool last = effect.spares_at_end && pair[1][i] + 1u == values;
        if (ends && effect.faster == End::last) {
          EXPECT_LE(later->seconds, earlier->seconds * allowed + 1e-4);
        }
        if (ends && effect.faster == End::first) {
          EXPECT_LE(earlier->seconds, later->seconds * allowed + 1e-4);
        }
        if (memory_ends && effect.frugal == End::last) {
          EXPECT_GE(later->spare, earlier->spare - kMiB - effect.uneven);
        }
        if (memory_ends && effect.frugal == End::first && !last) {
          EXPECT_GE(earlier->spare, later->spare - kMiB - effect.uneven);
        }
      }
    }
  }
  EXPECT_GE(held.size(), 4u);
}

INSTANTIATE_TEST_SUITE_P(Examples, Effects,
                         ::testing::Values("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml",
                                           "configs/examples/verl/llama-3.1-8b-ppo-8xh100.yaml",
                                           "configs/examples/verl/qwen3-8b-grpo-fsdp2-8xh200.yaml",
                                           "configs/examples/verl/qwen2.5-7b-grpo-megatron-8xh100.yaml",
                                           "configs/examples/nemo-rl/qwen2.5-7b-grpo-tp2-8xh100.yaml",
                                           "configs/examples/nemo-rl/llama-3.1-8b-grpo-megatron-2x8xh100.yaml",
                                           "configs/examples/chatlearn/qwen2.5-7b-grpo-fsdp-8xh100.yaml",
                                           "configs/examples/openrlhf/qwen3-8b-grpo-dotted-8xh200.sh",
                                           "configs/examples/easyr1/qwen2.5-7b-dapo-ulysses-8xh100.yaml",
                                           "configs/examples/easyr1/qwen2.5-7b-grpo-8xh100.yaml"));

}  // namespace
}  // namespace headroom::search

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <utility>

#include "planner/cli/executors.h"
#include "planner/frameworks/registry.h"
#include "planner/search/plan.h"
#include "simulator/hardware/library.h"
#include "tests/support/data.h"

namespace headroom::search {
namespace {

/// A plan by tables against trying everything: of parts of every framework's space that are small enough for that,
/// drawn at random and on budgets that bind, it names a configuration as fast as the fastest that fits.
class BruteForce : public ::testing::TestWithParam<const char*> {};

constexpr double kMostConfigurations = 160;

/// Spaces drawn of each run; HEADROOM_BRUTE_FORCE=N draws N.
int rounds() {
  const char* text = std::getenv("HEADROOM_BRUTE_FORCE");
  return text == nullptr ? 3 : std::max(1, std::atoi(text));
}

/// Some values of some knobs, the run's own among them.
std::vector<std::string> some_knobs(std::span<const Knob> knobs, std::mt19937& random) {
  std::vector<std::string> out;
  double size = 1;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < knobs.size(); ++i) order.push_back(i);
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t i : order) {
    const Knob& knob = knobs[i];
    if (knob.changes_numerics || knob.exact_only || knob.values.size() < 2) continue;
    std::vector<std::string> values = knob.values;
    while (values.size() > 3) values.erase(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
    if (size * static_cast<double>(values.size()) > kMostConfigurations) continue;
    size *= static_cast<double>(values.size());
    std::string request = knob.name;
    for (const std::string& value : values) request += (request == knob.name ? "=" : ",") + value;
    out.push_back(std::move(request));
  }
  return out;
}

std::vector<Point> every_point(const Space& space) {
  std::vector<Point> out{Point(space.dimensions.size(), 0)};
  for (std::size_t i = 0; i < space.dimensions.size(); ++i) {
    std::vector<Point> more;
    for (const Point& point : out)
      for (std::uint16_t value = 0; value < space.dimensions[i].values.size(); ++value) {
        more.push_back(point);
        more.back()[i] = value;
      }
    out = std::move(more);
  }
  return out;
}

std::string shown(const Space& space, const Point& point) {
  std::string out;
  for (std::size_t i = 0; i < point.size(); ++i)
    out += " " + space.dimensions[i].knob.name + "=" + space.dimensions[i].values[point[i]];
  return out;
}

/// Seconds of the fastest that fits exactly, by the quick executor; 0: none. Those that may be are run exactly, the
/// fastest first. And that one.
std::pair<double, Point> fastest(const Setup& setup, const Space& space, const Executors& executors) {
  const std::vector<Point> points = every_point(space);
  const std::vector<Outcome> outcomes = Evaluator(setup, space, executors.quick)(points);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (outcomes[i].valid && outcomes[i].fits) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return outcomes[a].seconds < outcomes[b].seconds; });
  for (const std::size_t i : order) {
    const Result<Report> report = evaluate(setup, space.choices(points[i]), executors.exact);
    if (report && report->fits) return {outcomes[i].seconds, points[i]};
  }
  return {0, {}};
}

TEST_P(BruteForce, FindsNothingFaster) {
  JobOptions options;
  options.steps = 2;
  const auto read = read_job(std::array{test::source(GetParam()).string()}, options);
  ASSERT_TRUE(read) << read.error().text();
  search::Setup setup;
  setup.framework = find_framework(read->job.framework);
  setup.read = &*read;
  setup.hardware = load_hardware(read->job.gpu.empty() ? "h200" : read->job.gpu).value();
  setup.limits.card = setup.limits.budget = setup.hardware.total_memory;
  const Executors executors = cli::planning_executors();
  const Outcome now = outcome_of(*evaluate(setup, {}, executors.quick));
  ASSERT_TRUE(now.valid);
  std::mt19937 random(5);
  int decided = 0;
  for (int round = 0; round < rounds(); ++round) {
    const std::vector<std::string> vary = some_knobs(setup.framework->knobs(*read), random);
    const Space space = make_space(setup.framework->knobs(*read), vary, {}).value();
    const double part = 0.9 + 0.05 * static_cast<double>(random() % 6);
    setup.limits.budget = std::min(setup.limits.card, static_cast<Bytes>(part * static_cast<double>(now.peak_device)));
    std::string where = "budget " + format_gib(setup.limits.budget) + ",";
    for (const std::string& one : vary) where += " " + one;
    SCOPED_TRACE(where);
    const auto [best, point] = fastest(setup, space, executors);
    const Result<Plan> plan = make_plan(setup, space, executors, {});
    if (!plan) {
      EXPECT_EQ(best, 0) << plan.error().text();
      continue;
    }
    if (!plan->proof || !plan->proof->complete()) continue;
    ++decided;
    ASSERT_EQ(plan->proof->winning.has_value(), best > 0);
    if (best > 0) {
      EXPECT_NEAR(plan->proof->winning->quick.seconds, best, 1e-4 * best)
          << "fastest:" << shown(space, point) << "\nfound:" << shown(space, plan->proof->winning->point);
    }
  }
  EXPECT_GT(decided, 0);
}

INSTANTIATE_TEST_SUITE_P(Examples, BruteForce,
                         ::testing::Values("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml",
                                           "configs/examples/verl/llama-3.1-8b-ppo-8xh100.yaml",
                                           "configs/examples/verl/qwen3-8b-grpo-fsdp2-8xh200.yaml",
                                           "configs/examples/verl/qwen2.5-7b-grpo-megatron-8xh100.yaml",
                                           "configs/examples/nemo-rl/qwen2.5-7b-grpo-tp2-8xh100.yaml",
                                           "configs/examples/chatlearn/qwen2.5-7b-grpo-fsdp-8xh100.yaml",
                                           "configs/examples/openrlhf/qwen3-8b-grpo-dotted-8xh200.sh",
                                           "configs/examples/easyr1/qwen2.5-7b-grpo-8xh100.yaml"));

}  // namespace
}  // namespace headroom::search

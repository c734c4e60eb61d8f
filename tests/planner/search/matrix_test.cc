#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "planner/cli/executors.h"
#include "planner/frameworks/registry.h"
#include "planner/search/plan.h"
#include "simulator/hardware/library.h"
#include "tests/support/data.h"

namespace headroom::search {
namespace {

/// No recommendation is beaten: not by the run as it is, by none of its own changes of one knob or of two. With
/// HEADROOM_MATRIX=FOLDER every configuration and script in it, on four cards each; else a few examples on their own.
constexpr const char* kCards[] = {"l40s", "a100_80gb", "h100", "h200"};
constexpr double kBeaten = 0.005;     // of the step: what the closed form does not tell apart
constexpr std::size_t kMostExact = 12;  // of those that look faster, the fastest

struct Rival {
  Point point;
  Outcome outcome;
};

/// The run as it is, and all that differs from `best` in one knob or two.
std::vector<Point> rivals_of(const Space& space, const Point& best) {
  std::vector<Point> singles, out = {space.current()};
  for (std::size_t i = 0; i < best.size(); ++i)
    for (std::uint16_t value = 0; value < space.dimensions[i].values.size(); ++value) {
      if (value == best[i] || space.dimensions[i].knob.exact_only) continue;
      singles.push_back(best);
      singles.back()[i] = value;
    }
  out.insert(out.end(), singles.begin(), singles.end());
  for (std::size_t a = 0; a < singles.size(); ++a)
    for (std::size_t i = 0; i < best.size(); ++i) {
      // Of a second knob the two ends and the neighbours: what lies between is between.
      if (singles[a][i] != best[i] || space.dimensions[i].knob.exact_only) continue;
      const auto last = static_cast<int>(space.dimensions[i].values.size()) - 1;
      for (const int value : {0, best[i] - 1, best[i] + 1, last}) {
        if (value < 0 || value > last || value == best[i]) continue;
        Point pair = singles[a];
        pair[i] = static_cast<std::uint16_t>(value);
        out.push_back(std::move(pair));
      }
    }
  return out;
}

Point point_of(const Space& space, std::span<const Choice> choices) {
  Point point = space.current();
  for (const Choice& choice : choices)
    for (std::size_t i = 0; i < point.size(); ++i) {
      const std::vector<std::string>& values = space.dimensions[i].values;
      if (space.dimensions[i].knob.name != choice.knob) continue;
      point[i] = static_cast<std::uint16_t>(std::find(values.begin(), values.end(), choice.value) - values.begin());
    }
  return point;
}

std::string text_of(const Space& space, const Point& point) {
  std::string out;
  for (const Choice& choice : space.choices(point)) out += " " + choice.knob + "=" + choice.value;
  return out;
}

/// The first that fits and is faster than `limit` seconds by an exact run.
std::string faster(const Setup& setup, const Space& space, const Executors& executors, const std::vector<Point>& rivals,
                   double quick_limit, double limit) {
  const std::vector<Outcome> outcomes = Evaluator(setup, space, executors.quick)(rivals);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < rivals.size(); ++i)
    if (outcomes[i].valid && outcomes[i].fits && outcomes[i].seconds < quick_limit) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return outcomes[a].seconds < outcomes[b].seconds; });
  if (order.size() > kMostExact) order.resize(kMostExact);
  for (const std::size_t i : order) {
    const Result<Report> report = evaluate(setup, space.choices(rivals[i]), executors.exact);
    if (!report || !report->fits) continue;
    const Outcome exact = outcome_of(*report);
    if (exact.seconds < limit) return std::to_string(exact.seconds) + " s with" + text_of(space, rivals[i]);
  }
  return {};
}

void expect_unbeaten(const std::string& file, const std::string& card) {
  SCOPED_TRACE(file + " on " + card);
  JobOptions options;
  options.steps = 2;
  if (!card.empty()) options.gpu = card;
  const auto read = read_job(std::array{file}, options);
  if (!read) return;  // no run of it: another test's business
  search::Setup setup;
  setup.framework = find_framework(read->job.framework);
  if (setup.framework == nullptr || setup.framework->knobs == nullptr) return;
  setup.read = &*read;
  setup.hardware = load_hardware(!card.empty() ? card : read->job.gpu.empty() ? "h100" : read->job.gpu).value();
  setup.limits.card = setup.limits.budget = setup.hardware.total_memory;
  const Space space = make_space(setup.framework->knobs(*read), {}, {}).value();
  const Executors executors = cli::planning_executors();
  const Result<Plan> plan = make_plan(setup, space, executors, {});
  if (!plan || plan->choices.empty()) return;
  const PlanChoice& best = *std::min_element(plan->choices.begin(), plan->choices.end(), [](const auto& a, const auto& b) {
    return a.outcome.seconds < b.outcome.seconds;
  });
  EXPECT_LE(plan->choices.front().outcome.seconds, best.outcome.seconds * 1.021) << "the fewest changes cost too much";
  if (plan->now.fits) {
    EXPECT_LE(best.outcome.seconds, plan->now.seconds * (1 + kBeaten)) << "beaten by the run as it is";
  }
  const Point point = point_of(space, best.choices);
  const Outcome quick = Evaluator(setup, space, executors.quick)(std::span(&point, 1)).front();
  const std::string beaten = faster(setup, space, executors, rivals_of(space, point), quick.seconds,
                                    best.outcome.seconds * (1 - kBeaten));
  EXPECT_EQ(beaten, "") << best.outcome.seconds << " s with" << text_of(space, point);
}

TEST(Matrix, NothingNearARecommendationIsFaster) {
  if (const char* folder = std::getenv("HEADROOM_MATRIX")) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    for (const std::string& file : files)
      for (const char* card : kCards) expect_unbeaten(file, card);
    return;
  }
  for (const char* file : {"configs/examples/verl/qwen2.5-3b-grpo-4xl40s.args", "configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml",
                           "configs/examples/openrlhf/qwen3-8b-grpo-dotted-8xh200.sh"})
    expect_unbeaten(test::source(file).string(), "");
}

}  // namespace
}  // namespace headroom::search

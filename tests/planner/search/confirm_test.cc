#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "planner/search/plan.h"
#include "simulator/closed_form/recalled_trainer.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"
#include "tests/support/data.h"

namespace headroom::search {
namespace {

/// An executor that runs each job once: budgets are judged afterwards.
Executor remembering(Executor inner) {
  struct Shelf {
    std::mutex mutex;
    std::vector<std::pair<Job, Report>> known;
  };
  return [shelf = std::make_shared<Shelf>(), inner = std::move(inner)](
             const Job& job, const Hardware& hardware) -> Result<Report> {
    const std::lock_guard lock(shelf->mutex);
    for (const auto& [other, report] : shelf->known)
      if (other == job) return report;
    HEADROOM_ASSIGN(Report report, inner(job, hardware));
    shelf->known.emplace_back(job, report);
    return report;
  };
}

/// GRPO of a 7B model on eight H100, over knobs that free memory in different phases.
class EveryBudget : public ::testing::Test {
 protected:
  void SetUp() override {
    JobOptions options;
    options.steps = 2;
    auto run = read_job(
        std::array{test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml").string()}, options);
    ASSERT_TRUE(run) << run.error().text();
    read = std::move(*run);
    setup.framework = find_framework("verl");
    setup.read = &read;
    setup.hardware = find_hardware("h100").value();
    const std::vector<std::string> vary = {"token_budget=3072,6144,16384,24576", "optimizer_offload",
                                           "param_offload", "gpu_memory_utilization=0.3,0.45,0.6"};
    space = make_space(setup.framework->knobs(read), vary, {}).value();
    quick = [trainer = closed_form::recalled(std::make_shared<closed_form::CostBook>(setup.hardware))](
                const Job& job, const Hardware& hardware) {
      return run_on_device(job, hardware, trainer, "closed_form");
    };
    exact = remembering([](const Job& job, const Hardware& hardware) {
      return run_on_device(job, hardware, Fidelity::every_allocation);
    });
  }

  void set_budget(Bytes budget) {
    setup.limits.card = setup.hardware.total_memory;
    setup.limits.budget = budget;
  }

  /// Every configuration of the space, run exactly.
  std::vector<Outcome> everything() const {
    std::vector<Point> points(1);
    for (const Dimension& dimension : space.dimensions) {
      std::vector<Point> longer;
      for (const Point& point : points)
        for (std::size_t value = 0; value < dimension.values.size(); ++value) {
          longer.push_back(point);
          longer.back().push_back(static_cast<std::uint16_t>(value));
        }
      points = std::move(longer);
    }
    return Evaluator(setup, space, exact)(points);
  }

  ReadJob read;
  search::Setup setup;
  Space space;
  Executor quick, exact;
};

// The closed form knows no fragmentation, up to a fifth of the card here: that must cost neither the answer
// nor much of its quality.
TEST_F(EveryBudget, APlanFindsWhatFits) {
  int found = 0, none = 0;
  for (Bytes budget = 44 * kGiB; budget <= 76 * kGiB; budget += 2 * kGiB) {
    SCOPED_TRACE(format_gib(budget));
    set_budget(budget);
    double fastest = 0;
    for (const Outcome& outcome : everything())
      if (outcome.valid && outcome.fits)
        fastest = fastest == 0 ? outcome.seconds : std::min(fastest, outcome.seconds);
    PlanOptions options;
    options.top = 1;
    const Plan plan = make_plan(setup, space, {quick, exact}, options).value();
    ASSERT_EQ(plan.choices.empty(), fastest == 0);
    if (fastest == 0) {
      ++none;
      continue;
    }
    ++found;
    EXPECT_TRUE(plan.choices[0].outcome.fits);
    EXPECT_LE(plan.choices[0].outcome.seconds, 1.03 * fastest);
    // What was promised holds when it is judged alone.
    const Result<Report> judged = evaluate(setup, plan.choices[0].choices, exact);
    ASSERT_TRUE(judged);
    EXPECT_TRUE(judged->fits);
  }
  EXPECT_GT(found, 8);
  EXPECT_GT(none, 0);
}

}  // namespace
}  // namespace headroom::search

#include "planner/compare/log_comparison.h"

#include <gtest/gtest.h>

namespace headroom::compare {
namespace {

Report predicted() {
  Report report;
  DeviceReport& device = report.devices.emplace_back();
  for (int step = 0; step < 2; ++step)
    for (const char* name : {"generate", "actor_logprob", "ref_logprob", "train_actor"}) {
      PhaseReport& phase = device.phases.emplace_back();
      phase.step = step;
      phase.phase = name;
      phase.seconds = step == 0 ? 100 : 2;
      ProcessPhase& process = phase.processes.emplace_back();
      process.process = "trainer";
      process.roles = {"actor"};
      process.peak_allocated = 3 * kGiB;
      process.peak_reserved = 4 * kGiB;
    }
  return report;
}

const LogRow* find(const LogComparison& comparison, const std::string& metric) {
  for (const LogRow& row : comparison.rows)
    if (row.metric == metric) return &row;
  return nullptr;
}

TEST(LogComparison, HoldsMediansAfterTheFirstStepAgainstTheLastPredictedStep) {
  TrainingLog log;
  for (int step = 1; step <= 4; ++step)
    log.steps.push_back({step,
                         {{"timing_s/gen", step == 1 ? 60.0 : 2.5},
                          {"timing_s/adv", 0.1},
                          {"timing_s/step", 9.0},
                          {"perf/max_memory_allocated_gb", 2.0 + 0.25 * step}}});
  const LogComparison comparison = compare_log({}, predicted(), log);
  const LogRow* generate = find(comparison, "timing_s/gen");
  ASSERT_NE(generate, nullptr);
  EXPECT_DOUBLE_EQ(generate->measured, 2.5);
  EXPECT_DOUBLE_EQ(generate->predicted, 2);
  EXPECT_DOUBLE_EQ(generate->error(), -20);
  EXPECT_EQ(generate->steps, 3u);
  ASSERT_NE(find(comparison, "timing_s/step"), nullptr);
  EXPECT_DOUBLE_EQ(find(comparison, "timing_s/step")->predicted, 8);
  const LogRow* memory = find(comparison, "perf/max_memory_allocated_gb");
  ASSERT_NE(memory, nullptr);
  EXPECT_TRUE(memory->bytes);
  EXPECT_DOUBLE_EQ(memory->measured, 3.0 * kGiB);
  EXPECT_DOUBLE_EQ(memory->error(), 0);
  EXPECT_EQ(comparison.unpredicted, std::vector<std::string>{"timing_s/adv"});
}

// verl sent weights within the generation's timer before it had one for them.
TEST(LogComparison, ATimerEnclosesWhatLaterReleasesSplitOff) {
  Report report = predicted();
  for (DeviceReport& device : report.devices) {
    PhaseReport sync = device.phases.back();
    sync.phase = "weight_sync";
    sync.seconds = 1.5;
    device.phases.push_back(sync);
  }
  TrainingLog log;
  log.steps.push_back({1, {{"timing_s/gen", 4.0}}});
  EXPECT_DOUBLE_EQ(find(compare_log({}, report, log), "timing_s/gen")->predicted, 3.5);
  log.steps[0].metrics["timing_s/update_weights"] = 2.0;
  const LogComparison apart = compare_log({}, report, log);
  EXPECT_DOUBLE_EQ(find(apart, "timing_s/gen")->predicted, 2);
  EXPECT_DOUBLE_EQ(find(apart, "timing_s/update_weights")->predicted, 1.5);
}

TEST(LogComparison, TellsTheLengthsThatAreLogged) {
  TrainingLog log;
  for (int step = 1; step <= 4; ++step)
    log.steps.push_back({step,
                         {{"prompt_length/mean", 100.0},
                          {"prompt_length/max", 150.0 + step},
                          {"response_length/mean", step == 1 ? 900.0 : 300.0 + step},
                          {"response_length/max", 1000.0}}});
  const std::optional<Lengths> lengths = logged_lengths(log);
  ASSERT_TRUE(lengths);
  EXPECT_DOUBLE_EQ(lengths->mean_prompt, 100);
  EXPECT_DOUBLE_EQ(lengths->mean_response, 303);  // without the first step
  EXPECT_EQ(lengths->max_total, 1154);
  log.steps = {{1, {{"timing_s/gen", 5.0}}}};
  EXPECT_FALSE(logged_lengths(log));
}

TEST(LogComparison, AddsPhasesThatOneTimerEncloses) {
  TrainingLog log;
  log.steps.push_back({1, {{"timing/train/policy_and_reference_logprobs", 5.0}}});
  const LogComparison comparison = compare_log({}, predicted(), log);
  ASSERT_EQ(comparison.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(comparison.rows[0].predicted, 4);
}

}  // namespace
}  // namespace headroom::compare

#include "planner/compare/training_log.h"

#include <gtest/gtest.h>

namespace headroom::compare {
namespace {

void expect_two_steps(const std::string& text, const std::string& metric) {
  const Result<TrainingLog> log = parse_training_log(text, "log");
  ASSERT_TRUE(log) << log.error().text();
  ASSERT_EQ(log->steps.size(), 2u) << text;
  EXPECT_EQ(log->steps[0].step, 1);
  EXPECT_DOUBLE_EQ(log->steps[0].metrics.at(metric), 18.5);
  EXPECT_EQ(log->steps[1].step, 2);
  EXPECT_DOUBLE_EQ(log->steps[1].metrics.at(metric), 17.25);
}

TEST(TrainingLog, ReadsEveryForm) {
  expect_two_steps(
      "INFO something else\n"
      "(TaskRunner pid=7) step:1 - global_seqlen/min:3 - timing_s/gen:18.5 - perf/x:np.float64(2.0)\n"
      "step:2 - timing_s/gen:np.float64(17.25)\n",
      "timing_s/gen");
  expect_two_steps(
      "{\"step\": 1, \"data\": {\"timing_s/gen\": 18.5}}\n{\"step\": 2, \"data\": {\"timing_s/gen\": "
      "17.25}}\n",
      "timing_s/gen");
  expect_two_steps("{\"timing/train/total_step_time\": {\"1\": 18.5, \"2\": 17.25}}",
                   "timing/train/total_step_time");
  expect_two_steps(
      "{\"log_history\": [{\"step\": 1, \"step_time\": 18.5}, {\"step\": 2, \"step_time\": 17.25}]}",
      "step_time");
  expect_two_steps("\"Step\",\"run-7 - timing_s/gen\",\"run-7 - timing_s/gen__MIN\"\n1,18.5,18\n2,17.25,17\n",
                   "timing_s/gen");
  expect_two_steps(
      "{'loss': 0.1, 'step_time': 18.5, 'step': 1}\n{'loss': 0.1, 'step_time': 17.25, 'step': 2}\n",
      "step_time");
}

TEST(TrainingLog, ReadsListsBelowAStep) {
  const std::string text =
      "========================= Step 1/20 =========================\n"
      "\u25b6 Generating responses for batch of size 64...\n"
      "\U0001f4ca Training Results:\n  \u2022 Loss: 0.1032\n  \u2022 Mean Generation Length: 795.5000\n"
      "\u23f1\ufe0f  Timing:\n  \u2022 Total step time: 66.55s\n  \u2022 policy_training: 18.5s (37.6%)\n"
      "\n\u26a1 Performance:\n  \u2022 policy_training: 3.00\n"
      "\U0001f50d Validation Timing:\n  \u2022 Total step time: 9.00s\n"
      "(pid=7) ========================= Step 2/20 =========================\n"
      "(pid=7) \u23f1\ufe0f  Timing:\n(pid=7)   \u2022 Total step time: 60.00s\n(pid=7)   \u2022 policy_training: 17.25s (9%)\n";
  expect_two_steps(text, "timing/train/policy_training");
  const Result<TrainingLog> log = parse_training_log(text, "log");
  EXPECT_DOUBLE_EQ(log->steps[0].metrics.at("timing/train/total_step_time"), 66.55);
  EXPECT_DOUBLE_EQ(log->steps[0].metrics.at("train/mean_gen_tokens_per_sample"), 795.5);
  EXPECT_DOUBLE_EQ(log->steps[1].metrics.at("timing/train/total_step_time"), 60);
}

TEST(TrainingLog, SaysWhatItExpectedWhereItFindsNothing) {
  const Result<TrainingLog> log = parse_training_log("nothing of the kind\n", "run.log");
  ASSERT_FALSE(log);
  EXPECT_NE(log.error().text().find("run.log"), std::string::npos);
  EXPECT_NE(log.error().text().find("timing_s/gen"), std::string::npos);
}

}  // namespace
}  // namespace headroom::compare

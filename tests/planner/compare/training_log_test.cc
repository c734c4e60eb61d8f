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

TEST(TrainingLog, SaysWhatItExpectedWhereItFindsNothing) {
  const Result<TrainingLog> log = parse_training_log("nothing of the kind\n", "run.log");
  ASSERT_FALSE(log);
  EXPECT_NE(log.error().text().find("run.log"), std::string::npos);
  EXPECT_NE(log.error().text().find("timing_s/gen"), std::string::npos);
}

}  // namespace
}  // namespace headroom::compare

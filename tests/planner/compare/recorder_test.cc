#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "planner/compare/comparison.h"
#include "planner/compare/measured.h"
#include "tests/support/data.h"

namespace headroom::compare {
namespace {

/// Runs the recorder on a stand-in for PyTorch; empty where this machine has no Python.
std::string record() {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "headroom_recorder";
  std::filesystem::create_directories(folder);
  const std::string out = (folder / "run.json").string();
  const std::string command =
      "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + test::source("tests/support/fake_torch").string() +
      " python3 " + test::source("tests/support/fake_torch/record_run.py").string() + " " +
      test::source("validator/pytorch").string() + " " + out;
  if (std::system("python3 -c '' 2>/dev/null") != 0) return {};
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return out;
}

TEST(Recorder, WritesWhatCompareReads) {
  const std::string file = record();
  if (file.empty()) GTEST_SKIP() << "skipped: no python3";
  const auto measured = read_measured(file);
  ASSERT_TRUE(measured) << measured.error().text();
  EXPECT_EQ(measured->name, "made-up");
  ASSERT_EQ(measured->phases.size(), 42u);
  const MeasuredPhase &init = measured->phases[0], &generate = measured->phases[1],
                      &last = measured->phases[41];
  EXPECT_EQ(init.step, -1);
  EXPECT_EQ(init.peak_allocated, kGiB);
  EXPECT_EQ(generate.step, 0);
  EXPECT_EQ(generate.phase, "generate");
  EXPECT_EQ(generate.peak_allocated, 3 * kGiB);
  EXPECT_EQ(generate.n_allocs, 1);
  EXPECT_EQ(last.step, 20) << "a step begins when its first phase comes again";
  EXPECT_TRUE(last.ended_out_of_memory);
}

TEST(Recorder, ARunThatLeaksIsSaidToGrow) {
  const std::string file = record();
  if (file.empty()) GTEST_SKIP() << "skipped: no python3";
  const auto measured = read_measured(file);
  ASSERT_TRUE(measured);
  const std::string text = trend_text(trends(compare(Report{}, *measured)));
  EXPECT_NE(text.find("memory grows in train_actor"), std::string::npos) << text;
  EXPECT_NE(text.find("64.00 MiB a step"), std::string::npos) << text;
}

TEST(Compare, HoldsLaterStepsAgainstTheLastPredictedOne) {
  Report report;
  for (int step = 0; step < 2; ++step) {
    PhaseReport& phase = report.devices.emplace_back().phases.emplace_back();
    phase.step = step;
    phase.phase = "train_actor";
    phase.processes.emplace_back().peak_allocated = (step + 1) * kGiB;
  }
  Measured measured;
  for (int step = 0; step < 5; ++step)
    measured.phases.push_back({.step = step,
                               .phase = "train_actor",
                               .peak_allocated = 2 * kGiB,
                               .peak_reserved = 0,
                               .n_allocs = {}});
  const std::vector<Row> rows = compare(report, measured);
  EXPECT_EQ(rows[0].peak_allocated, kGiB);
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_EQ(rows[i].peak_allocated, 2 * kGiB);
}

}  // namespace
}  // namespace headroom::compare

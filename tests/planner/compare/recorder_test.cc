#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "planner/compare/comparison.h"
#include "planner/compare/measured.h"
#include "tests/support/data.h"

namespace headroom::compare {
namespace {

/// A folder of this test's own.
std::filesystem::path folder() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const auto out = test::scratch() / ("headroom_recorder_" + std::string(test->name()));
  std::filesystem::create_directories(out);
  return out;
}

bool has_python() {
  return std::system("python3 -c '' 2>/dev/null") == 0;
}

/// `script` of tests/support on the recorder, with the stand-in for PyTorch in front of a real one.
int run_python(const std::string& script, const std::string& arguments, bool stand_in = true) {
  const std::string command = "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" +
                              (stand_in ? test::source("tests/support/fake_torch").string() : "") +
                              " python3 " + test::source("tests/support/" + script).string() + " " +
                              test::source("validator/pytorch").string() + " " + arguments;
  return std::system(command.c_str());
}

/// A made-up run of twenty steps that `leaks` or `fragments`; empty where this machine has no Python.
std::string record(const std::string& how) {
  if (!has_python()) return {};
  const std::string out = (folder() / "run.json").string();
  EXPECT_EQ(run_python("fake_torch/record_run.py", out + " " + how), 0);
  return out;
}

TEST(Recorder, WritesWhatCompareReads) {
  const std::string file = record("leaks");
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
  const std::string file = record("leaks");
  if (file.empty()) GTEST_SKIP() << "skipped: no python3";
  const auto measured = read_measured(file);
  ASSERT_TRUE(measured);
  const std::string text = trend_text(trends(compare(Report{}, *measured)));
  EXPECT_NE(text.find("memory grows in train_actor"), std::string::npos) << text;
  EXPECT_NE(text.find("64.00 MiB a step"), std::string::npos) << text;
}

TEST(Recorder, ARunThatFragmentsIsSaidTo) {
  const std::string file = record("fragments");
  if (file.empty()) GTEST_SKIP() << "skipped: no python3";
  const auto measured = read_measured(file);
  ASSERT_TRUE(measured);
  const std::string text = trend_text(trends(compare(Report{}, *measured)));
  EXPECT_NE(text.find("fragmentation accumulates in generate"), std::string::npos) << text;
  EXPECT_EQ(text.find("memory grows"), std::string::npos) << text;
}

TEST(Compare, TheRowThatRanOutOfMemoryDoesNotHideTheLeakThatLedToIt) {
  Measured measured;
  for (int step = 0; step < 12; ++step)
    measured.phases.push_back({.step = step,
                               .phase = "train_actor",
                               .peak_allocated = (step < 11 ? 40 + step : 20) * kGiB,
                               .peak_reserved = 80 * kGiB,
                               .n_allocs = {},
                               .ended_out_of_memory = step == 11});
  const std::string text = trend_text(trends(compare(Report{}, measured)));
  EXPECT_NE(text.find("memory grows in train_actor"), std::string::npos) << text;
}

TEST(Recorder, KeepsItsPromisesOnTheStandIn) {
  if (!has_python()) GTEST_SKIP() << "skipped: no python3";
  EXPECT_EQ(run_python("recorder_checks.py", folder().string()), 0);
}

TEST(Recorder, KeepsItsPromisesOnPyTorch) {
  if (std::system("python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null") != 0)
    GTEST_SKIP() << "skipped: no PyTorch with a GPU";
  EXPECT_EQ(run_python("recorder_checks.py", folder().string(), false), 0);
}

TEST(Measured, PhasesWithinPhasesStay) {
  const auto document = parse_document(R"({"phases": [
    {"step": 0, "phase": "actor_logprob", "depth": 1, "peak_alloc": 2, "peak_reserved": 3},
    {"step": 0, "phase": "experience", "peak_alloc": 1, "peak_reserved": 3}]})",
                                       "run.json");
  ASSERT_TRUE(document) << document.error().text();
  const auto measured = measured_of(*document, "run.json");
  ASSERT_TRUE(measured);
  ASSERT_EQ(measured->phases.size(), 2u);
  EXPECT_EQ(measured->phases[0].phase, "actor_logprob");
}

/// A trainer's calls within its calls: a row a step and name, and the update as the largest of its parts.
TEST(Measured, CallsWithinCallsAreRowsOfTheirStep) {
  const auto document = parse_document(R"({"phases": [
    {"step": -1, "phase": "init", "depth": 0, "peak_alloc": 5, "peak_reserved": 8, "n_allocs": 1},
    {"step": 0, "phase": "generate", "depth": 3, "peak_alloc": 9, "peak_reserved": 12, "n_allocs": 20},
    {"step": 0, "phase": "generate", "depth": 3, "peak_alloc": 7, "peak_reserved": 13, "n_allocs": 30},
    {"step": 0, "phase": "backward", "depth": 2, "peak_alloc": 20, "peak_reserved": 30, "n_allocs": 2},
    {"step": 0, "phase": "train_step", "depth": 1, "peak_alloc": 21, "peak_reserved": 31, "n_allocs": 60},
    {"step": 0, "phase": "optimizer_step", "depth": 1, "peak_alloc": 25, "peak_reserved": 29, "n_allocs": 4},
    {"step": 1, "phase": "train_step", "depth": 1, "peak_alloc": 22, "peak_reserved": 31, "n_allocs": 61},
    {"step": -1, "phase": "train_all", "depth": 0, "peak_alloc": 25, "peak_reserved": 31, "n_allocs": 200}]})",
                                       "run.json");
  ASSERT_TRUE(document) << document.error().text();
  const auto measured = measured_of(*document, "run.json");
  ASSERT_TRUE(measured) << measured.error().text();
  std::vector<std::string> names;
  for (const MeasuredPhase& phase : measured->phases)
    names.push_back(std::to_string(phase.step) + " " + phase.phase);
  EXPECT_EQ(names, (std::vector<std::string>{"-1 init", "0 generate", "0 backward", "0 train_step",
                                             "0 optimizer_step", "0 train_actor", "1 train_step",
                                             "1 train_actor", "-1 train_all"}));
  EXPECT_EQ(measured->phases[1].peak_reserved, 13);
  EXPECT_EQ(measured->phases[1].n_allocs, 50);
  EXPECT_EQ(measured->phases[1].depth, 3);
  EXPECT_EQ(measured->phases[5].peak_allocated, 25);
  EXPECT_EQ(measured->phases[5].peak_reserved, 31);
  Report report;
  for (Bytes peak : {30, 40}) {
    PhaseReport& phase = report.devices.emplace_back().phases.emplace_back();
    phase.phase = "train_step";
    phase.processes.emplace_back().peak_allocated = peak;
  }
  EXPECT_EQ(compare(report, *measured).back().peak_allocated, 40) << "all steps as one";
}

/// A job of several processes, one of which was recorded.
TEST(Compare, TakesTheProcessThatWasRecorded) {
  const auto document = parse_document(R"({"case": {"name": "run", "process": "critic"}, "phases": [
    {"step": 0, "phase": "train_critic", "peak_alloc": 5, "peak_reserved": 8}]})",
                                       "run.json");
  ASSERT_TRUE(document) << document.error().text();
  Measured measured = measured_of(*document, "run.json").value();
  EXPECT_EQ(measured.process, "critic");
  Report report;
  for (const char* name : {"actor", "critic"}) {
    PhaseReport& phase = report.devices.emplace_back().phases.emplace_back();
    phase.step = 0;
    phase.phase = "train_critic";
    ProcessPhase& process = phase.processes.emplace_back();
    process.process = name;
    process.peak_allocated = name == std::string("critic") ? 20 : 10;
  }
  EXPECT_EQ(compare(report, measured).front().peak_allocated, 20);
  measured.process = "reward";
  EXPECT_EQ(compare(report, measured).front().peak_allocated, 0) << "it has no part in the phase";
  measured.process.clear();
  EXPECT_EQ(compare(report, measured).front().peak_allocated, 10) << "the first";
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

#include "planner/study/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "models/document/document.h"
#include "planner/cli/output.h"
#include "planner/frameworks/job/file.h"
#include "simulator/phases/simulate.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

#include <nlohmann/json.hpp>

namespace headroom::study {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const char* kStudy = R"(headroom: study/1
steps: 2
empty_cache: [never, generation, phases, micro_batches]
strategies:
  - {name: none}
  - {name: checkpointing, change: {recompute: full}}
  - {name: expandable, change: {allocator: "expandable_segments:True"}}
  - {name: EMS, change: {ems: true}}
  - {name: ZeRO-2, set: {deepspeed-chat: {zero_stage: 2}}}
jobs:
)";

class RunStudy : public ::testing::Test {
 protected:
  std::filesystem::path folder =
      test::scratch() / (std::string("study_run_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());

  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    return folder / name;
  }
  Study study(const std::string& jobs) const {
    const auto made = read_study(write("study.yaml", kStudy + jobs));
    EXPECT_TRUE(made) << made.error().text();
    return made ? *made : Study{};
  }
  static std::string job(const std::string& name, const std::string& file, const std::string& more = "") {
    return "  - {name: " + name + ", file: " + test::data(file).string() + ", gpu: h200" + more + "}\n";
  }
};

bool equal(const Cell& a, const Cell& b) {
  return a.status == b.status && a.message == b.message && a.reserved.bytes == b.reserved.bytes &&
         a.reserved.phase == b.reserved.phase && a.allocated.bytes == b.allocated.bytes &&
         a.allocated_there == b.allocated_there && a.kept == b.kept && a.seconds == b.seconds &&
         a.gets == b.gets && a.returns == b.returns && a.device.bytes == b.device.bytes && a.step.size() == b.step.size() && a.parts.size() == b.parts.size();
}

TEST_F(RunStudy, ACellIsTheSimulationOfTheSameJob) {
  const Study made =
      study("  - {name: llama, file: " + test::source("configs/examples/job/llama-3.2-1b-ppo-1xh100.yaml").string() + "}\n");
  for (const Place& place : places(made)) {
    const auto run = prepare(made, place);
    ASSERT_TRUE(run) << run.error().text();
    if (!*run) continue;  // no ZeRO here
    const Cell cell = run_cell(made, place);
    SCOPED_TRACE(cell.strategy + " " + std::string(name(cell.empty_cache)));
    ASSERT_EQ(cell.status, Cell::Status::done) << cell.message;
    // By the command, on a job file that states the changes.
    const std::string file = write("job.yaml", write_yaml(jobfile::write_job_file((*run)->job)));
    const cli::Outcome outcome = cli::run_words({"simulate", file, "--holders", "0", "--json", "-"});
    const Json report = Json::parse(outcome.out, nullptr, false);
    ASSERT_FALSE(report.is_discarded()) << outcome.err;
    Bytes reserved = 0, allocated = 0;
    double seconds = 0;
    for (const Json& phase : report["devices"][0]["phases"]) {
      reserved = std::max(reserved, phase["processes"][0]["peak_reserved"].get<Bytes>());
      allocated = std::max(allocated, phase["processes"][0]["peak_allocated"].get<Bytes>());
      if (phase["step"] == 1) seconds += phase["seconds"].get<double>();
    }
    EXPECT_EQ(cell.reserved.bytes, reserved);
    EXPECT_EQ(cell.allocated.bytes, allocated);
    EXPECT_NEAR(cell.seconds, seconds, 1e-3 * seconds);
  }
}

TEST_F(RunStudy, AFailedCellStandsInItsPlace) {
  const Study made = study(job("opt", "deepspeed/opt13-z0.json", ", empty_cache: never") +
                           "  - {name: small, file: " + test::data("deepspeed/opt13-z0.json").string() +
                           ", gpu: rtx-3090, strategies: [none, EMS], empty_cache: never}\n");
  const auto results = run_study(made, nullptr);
  ASSERT_TRUE(results) << results.error().text();
  ASSERT_EQ(results->cells.size(), 5 + 2u);
  for (const Cell& cell : results->cells) {
    if (cell.strategy == "EMS") {
      EXPECT_EQ(cell.status, Cell::Status::failed);
      EXPECT_THAT(cell.message, HasSubstr("study.yaml:8: EMS"));
    } else if (cell.job == "opt") {
      EXPECT_EQ(cell.status, Cell::Status::done) << cell.message;
    } else if (cell.strategy == "none") {
      EXPECT_EQ(cell.status, Cell::Status::out_of_memory) << cell.reserved.bytes;
      EXPECT_THAT(cell.message, HasSubstr("out of memory"));
      EXPECT_FALSE(cell.step.empty());  // it stops before the first step, and shows what it did until there
    }
  }
}

TEST_F(RunStudy, LeavesOutStrategiesThatSayNothingForAFramework) {
  const Study made = study(job("torch", "rlhf/ll1b-grpo-bf16.json"));
  const auto results = run_study(made, nullptr);
  ASSERT_TRUE(results) << results.error().text();
  EXPECT_EQ(results->cells.size(), 4 * 4u);
  for (const Cell& cell : results->cells) EXPECT_NE(cell.strategy, "ZeRO-2");
}

TEST_F(RunStudy, WhatEmptyingSavedInRecordedRunsItSavesHere) {
  // Of the reserved peak: nothing without sharding, 6 % under ZeRO-2 and 14 % under ZeRO-3, at every phase's end.
  const Study made = [&] {
    const auto read = read_study(write("saved.yaml", R"(headroom: study/1
strategies:
  - {name: ZeRO-0}
  - {name: ZeRO-2, change: {zero: 2}}
  - {name: ZeRO-3, set: {deepspeed-chat: {zero_stage: 3}}}
jobs:
)" + job("opt", "deepspeed/opt13-z0.json")));
    EXPECT_TRUE(read) << read.error().text();
    return *read;
  }();
  const auto results = run_study(made, nullptr);
  for (const auto& [strategy, recorded] : {std::pair{"ZeRO-0", 0.0}, {"ZeRO-2", 0.06}, {"ZeRO-3", 0.14}})
    for (const Cell& cell : results->cells)
      if (cell.strategy == strategy && cell.empty_cache == Emptying::phases) {
        EXPECT_NEAR(*saved(*results, cell), recorded, 0.01) << strategy;
      }
}

TEST_F(RunStudy, EmptyingReturnsSegmentsThatAreGotAgain) {
  const Study made = study(job("opt", "deepspeed/opt13-z0.json", ", strategies: [ZeRO-2]"));
  const auto results = run_study(made, nullptr);
  ASSERT_TRUE(results) << results.error().text();
  for (const Cell& cell : results->cells) {
    SCOPED_TRACE(name(cell.empty_cache));
    ASSERT_EQ(cell.status, Cell::Status::done);
    if (cell.empty_cache == Emptying::never) {
      EXPECT_EQ(cell.returns, 0);
    }
    if (cell.empty_cache == Emptying::phases) {
      EXPECT_GT(cell.returns, 100);
      EXPECT_NEAR(static_cast<double>(cell.gets), static_cast<double>(cell.returns), 20);
    }
  }
}

TEST_F(RunStudy, KnownCellsAreNotRunAgain) {
  const Study made = study(job("torch", "rlhf/ll1b-grpo-bf16.json"));
  const std::string file = folder / "cells.jsonl";
  const auto run = [&](std::size_t& known, const char* build) {
    auto finished = Finished::open(file, build);
    EXPECT_TRUE(finished) << finished.error().text();
    auto results = run_study(made, &*finished, 0, [&](const Progress& progress) { known = progress.known; });
    EXPECT_TRUE(results);
    return *results;
  };
  std::size_t known = 99;
  const Results first = run(known, "a");
  EXPECT_EQ(known, 0u);
  const Results second = run(known, "a");
  EXPECT_EQ(known, first.cells.size());
  for (std::size_t i = 0; i < first.cells.size(); ++i) EXPECT_TRUE(equal(first.cells[i], second.cells[i])) << i;
  run(known, "b");  // another program's results are not taken
  EXPECT_EQ(known, 0u);
  // A line that was cut off is run again, and what is added after it is whole.
  std::string text;
  {
    std::ifstream in(file);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::ofstream(file) << text.substr(0, text.find('\n', text.find('\n') + 1) + 100);
  run(known, "a");
  EXPECT_EQ(known, 1u);
  run(known, "a");
  EXPECT_EQ(known, first.cells.size());
}

TEST_F(RunStudy, AnInterruptKeepsWhatIsDoneAndEndsByItsSignal) {
  const Study made = study(job("torch", "rlhf/ll1b-grpo-bf16.json"));
  const std::string file = folder / "cells.jsonl";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    cli::remove_pending_output_on_signals();
    auto finished = Finished::open(file, "a");
    static_cast<void>(run_study(made, &*finished, 1, [](const Progress& progress) {
      if (progress.done == 3) raise(SIGINT);
    }));
    _exit(77);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
  auto finished = Finished::open(file, "a");
  ASSERT_TRUE(finished) << finished.error().text();
  std::size_t known = 0;
  const auto resumed = run_study(made, &*finished, 0, [&](const Progress& progress) { known = progress.known; });
  EXPECT_EQ(known, 3u);
  const auto whole = run_study(made, nullptr);
  ASSERT_EQ(resumed->cells.size(), whole->cells.size());
  for (std::size_t i = 0; i < whole->cells.size(); ++i) EXPECT_TRUE(equal(resumed->cells[i], whole->cells[i])) << i;
}

TEST_F(RunStudy, FinishedCellsAreNoOtherFile) {
  const std::string file = write("other.json", "{\"a\": 1}\n");
  const auto opened = Finished::open(file, "a");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().file, file);
  EXPECT_THAT(opened.error().message, HasSubstr("finished cells"));
  EXPECT_FALSE(Finished::open(folder, "a"));
  EXPECT_FALSE(Finished::open(folder / "none" / "cells", "a"));
}

TEST_F(RunStudy, KeysTellRunsApart) {
  const Study made = study(job("torch", "rlhf/ll1b-grpo-bf16.json"));
  std::set<std::string> keys;
  std::size_t count = 0;
  for (const Place& place : places(made)) {
    const auto run = prepare(made, place);
    if (!run || !*run) continue;
    ++count;
    keys.insert(key_of((*run)->job, (*run)->hardware, "a"));
  }
  EXPECT_EQ(keys.size(), count);
  const auto run = prepare(made, places(made).front());
  Prepared one = **run;
  const std::string key = key_of(one.job, one.hardware, "a");
  EXPECT_NE(key_of(one.job, one.hardware, "b"), key);
  one.hardware.latencies.operation *= 2;
  EXPECT_NE(key_of(one.job, one.hardware, "a"), key);
  Architecture other = *one.job.roles.front().model;
  other.decoder.groups.front().layer.attention.kv_heads /= 2;
  Job changed = (*run)->job;
  changed.roles.front().model = std::make_shared<Architecture>(other);
  EXPECT_NE(key_of(changed, (*run)->hardware, "a"), key);
}

}  // namespace
}  // namespace headroom::study

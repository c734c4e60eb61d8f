#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/compare/corpus.h"
#include "tests/support/data.h"

namespace headroom::compare {
namespace {

/// How far a run may get worse than its recorded error, in percentage points.
constexpr double kTolerance = 0.05;

/// Every run below `folders` against its errors in `limits`.
void expect_no_worse(const std::vector<std::string>& folders, const std::string& limits_file) {
  const Result<Corpus> corpus = read_corpus(folders);
  ASSERT_TRUE(corpus) << corpus.error().text();
  EXPECT_TRUE(corpus->skipped.empty()) << corpus->skipped.front().second;
  std::ifstream file(limits_file);
  const nlohmann::json recorded = nlohmann::json::parse(file);
  EXPECT_EQ(recorded.size(), corpus->runs.size());
  for (const RecordedRun& run : corpus->runs) {
    ASSERT_TRUE(recorded.contains(run.name)) << run.name << " has no recorded error";
    const nlohmann::json& limits = recorded[run.name];
    const Summary now = summarise(run.rows);
    EXPECT_LE(now.allocated_worst, limits["allocated"].get<double>() + kTolerance) << run.name;
    EXPECT_LE(now.reserved_worst, limits["reserved"].get<double>() + kTolerance) << run.name;
    EXPECT_GE(now.allocated_exact, limits["allocated_exact"].get<std::int64_t>()) << run.name;
    EXPECT_GE(now.reserved_exact, limits["reserved_exact"].get<std::int64_t>()) << run.name;
    EXPECT_GE(now.counts_equal, limits["counts_equal"].get<std::int64_t>()) << run.name;
  }
}

/// tests/data/accuracy.json is written by docs/regenerate_accuracy.sh beside docs/ACCURACY.md.
TEST(Accuracy, NoRunGetsWorse) {
  expect_no_worse({test::data("rlhf"), test::data("deepspeed"), test::data("trl"), test::data("trl-loops")},
                  test::data("accuracy.json"));
}

/// Frameworks' own trainers and workers; docs/regenerate_trainers_recorded.sh.
TEST(Accuracy, NoRecordedTrainerGetsWorse) {
  expect_no_worse({test::data("trl-trainers"), test::data("nemo-rl-worker"), test::data("openrlhf-actors"),
                   test::data("deepspeed-chat-runs"), test::data("colossalchat-trainers")},
                  test::data("trainers-recorded-errors.json"));
}

/// verl's own worker, phase by phase at the micro-batches that it formed; docs/regenerate_verl_recorded.sh.
TEST(Accuracy, NoRecordedWorkerGetsWorse) {
  expect_no_worse({test::data("verl-recorded")}, test::data("verl-recorded-errors.json"));
}

}  // namespace
}  // namespace headroom::compare

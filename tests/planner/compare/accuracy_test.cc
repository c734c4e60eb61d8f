#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/compare/corpus.h"
#include "tests/support/data.h"

namespace headroom::compare {
namespace {

/// How far a run may get worse than its recorded error, in percentage points.
constexpr double kTolerance = 0.05;

/// tests/data/accuracy.json is written by docs/regenerate_accuracy.sh beside docs/ACCURACY.md.
TEST(Accuracy, NoRunGetsWorse) {
  const Result<Corpus> corpus =
      read_corpus({test::data("rlhf"), test::data("deepspeed"), test::data("trl"), test::data("trl-loops")});
  ASSERT_TRUE(corpus) << corpus.error().text();
  EXPECT_TRUE(corpus->skipped.empty()) << corpus->skipped.front().second;
  std::ifstream file(test::data("accuracy.json"));
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

}  // namespace
}  // namespace headroom::compare

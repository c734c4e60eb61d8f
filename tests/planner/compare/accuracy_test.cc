#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/compare/corpus.h"
#include "tests/support/data.h"

namespace headroom::compare {
namespace {

/// How far a run may get worse than its recorded error, in percentage points.
constexpr double kTolerance = 0.05;

/// tests/data/accuracy.json: {"run": {"allocated": worst %, "reserved": worst %}}, written by
/// docs/regenerate_accuracy.sh beside docs/ACCURACY.md.
TEST(Accuracy, NoRunGetsWorse) {
  const Result<Corpus> corpus = read_corpus({test::data("rlhf"), test::data("deepspeed"), test::data("trl"), test::data("trl-loops")});
  ASSERT_TRUE(corpus) << corpus.error().text();
  std::ifstream file(test::data("accuracy.json"));
  const nlohmann::json recorded = nlohmann::json::parse(file);
  const std::map<std::string, RunError> errors = run_errors(corpus->rows);
  for (const auto& [name, limits] : recorded.items()) {
    const auto now = errors.find(name);
    ASSERT_NE(now, errors.end()) << name << " is no longer predicted";
    EXPECT_LE(now->second.allocated, limits["allocated"].get<double>() + kTolerance) << name;
    EXPECT_LE(now->second.reserved, limits["reserved"].get<double>() + kTolerance) << name;
  }
}

}  // namespace
}  // namespace headroom::compare

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Outcome estimate(std::vector<std::string> more) {
  std::vector<std::string> words = {"estimate", test::source("configs/examples/job/llama-3.2-1b-ppo-1xh100.yaml")};
  words.insert(words.end(), more.begin(), more.end());
  return run_words(words);
}

TEST(OtherSeconds, BelongToEveryStep) {
  EXPECT_THAT(estimate({"--other-seconds", "12.5"}).out, HasSubstr("other (given)"));
  EXPECT_THAT(estimate({}).out, Not(HasSubstr("other (given)")));
  const auto report = nlohmann::json::parse(estimate({"--other-seconds", "12.5", "--json", "-"}).out);
  EXPECT_EQ(report["other_seconds"], 12.5);
}

TEST(OtherSeconds, AreNoLessThanNone) {
  const Outcome refused = estimate({"--other-seconds", "-1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--other-seconds"));
}

}  // namespace
}  // namespace headroom::cli

// What `plan` is asked for beyond the fastest step: the fewest changes, and several cards at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kSeven = "configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml";

Outcome plan(const std::string& file, std::vector<std::string> words) {
  words.insert(words.begin(), {"plan", test::source(file).string()});
  return run_words(words);
}

json planned(const std::string& file, std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-"});
  const Outcome outcome = plan(file, words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

TEST(PlanForFewestChanges, LeavesARunThatFitsAlone) {
  const json value = planned(kSeven, {"--objective", "changes"});
  ASSERT_EQ(value["choices"].size(), 1u);
  EXPECT_TRUE(value["choices"][0]["changes"].empty());
  EXPECT_TRUE(value["choices"][0]["fewest_changes"].get<bool>());
}

TEST(PlanForFewestChanges, TurnsOneKnobWhereThatIsEnough) {
  const std::vector<std::string> words = {"--budget",    "64GiB",  "--vary", "param_offload", "--vary", "optimizer_offload",
                                          "--vary",      "gpu_memory_utilization", "--vary", "token_budget"};
  std::vector<std::string> fewest = words;
  fewest.insert(fewest.end(), {"--objective", "changes"});
  const json value = planned(kSeven, fewest);
  EXPECT_TRUE(value["fits"].get<bool>());
  EXPECT_EQ(value["choices"][0]["parts"].size(), 1u) << value["choices"][0]["changes"].dump();
  const json fastest = planned(kSeven, words);
  EXPECT_GE(value["choices"][0]["seconds_per_step"].get<double>() * 1.0001,
            fastest["choices"].back()["seconds_per_step"].get<double>());
}

TEST(PlanForCards, ComparesThemAndLeadsWithTheFastest) {
  const std::vector<std::string> vary = {"--vary", "token_budget=9216,16384", "--gpu", "a100_80gb,h100"};
  const json value = planned(kSeven, vary);
  ASSERT_EQ(value["cards"].size(), 2u);
  EXPECT_EQ(value["cards"][0]["gpu"], "a100_80gb");
  EXPECT_EQ(value["cards"][1]["gpu"], "h100");
  EXPECT_LT(value["cards"][1]["seconds_per_step"].get<double>(), value["cards"][0]["seconds_per_step"].get<double>());
  EXPECT_EQ(value["choices"][0]["seconds_per_step"], value["cards"][1]["seconds_per_step"]);
  const Outcome text = plan(kSeven, vary);
  EXPECT_THAT(text.out, HasSubstr("card"));
  EXPECT_THAT(text.out, HasSubstr("a100_80gb"));
  EXPECT_THAT(text.out, HasSubstr("On NVIDIA H100"));
}

TEST(PlanForCards, SaysWhatACardCannotDo) {
  const json value = planned(kSeven, {"--vary", "token_budget=9216,16384", "--gpu", "h100,nosuchcard"});
  EXPECT_THAT(value["cards"][1]["refusal"].get<std::string>(), HasSubstr("nosuchcard"));
  EXPECT_FALSE(value["cards"][1]["fits"].get<bool>());
  EXPECT_TRUE(value["cards"][0]["fits"].get<bool>());
  const Outcome none = plan(kSeven, {"--gpu", "nosuchcard,norone"});
  EXPECT_EQ(none.code, 2);
}

TEST(PlanObjective, IsOneOfFour) {
  const Outcome outcome = plan(kSeven, {"--objective", "speed"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("expected time, memory, gpus or changes, found 'speed'"));
}

}  // namespace
}  // namespace headroom::cli

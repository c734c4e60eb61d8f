// Runs like those of public reports that a change of the configuration fixed: `explain` offers that change, or cheaper
// ones, among its first three.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using nlohmann::json;

struct FixedReport {
  const char* id;    ///< of the report
  const char* file;  ///< a run of that kind, of our own
  std::vector<std::string> words;
  const char* says;              ///< words of what fixed it
  std::vector<std::string> fix;  ///< the same made; empty: it trains otherwise, so that any change is cheaper
  std::string key;               ///< what it turns
  std::int64_t gpus = 0;         ///< it took so many
};

void PrintTo(const FixedReport& one, std::ostream* out) {
  *out << one.id;
}

const std::vector<FixedReport> kReports = {
    {"trl-2688", "fixed_by/trl-2688.yaml", {"--gpu", "l4"}, "vllm_gpu_memory_utilization", {},
     "vllm_gpu_memory_utilization"},
    {"verl-302", "fixed_by/verl-302.yaml", {}, "gpu_memory_utilization",
     {"--set", "actor_rollout_ref.rollout.gpu_memory_utilization=0.45"},
     "actor_rollout_ref.rollout.gpu_memory_utilization"},
    {"dschat-410", "fixed_by/dschat-410.sh", {"--gpu", "a100_80gb"}, "16", {}, ""},
    {"chatlearn-288", "fixed_by/chatlearn-288.yaml", {}, "two nodes", {}, "", 16},
};

json explained(const FixedReport& report) {
  std::vector<std::string> words = {"explain", test::data(report.file).string(), "--json", "-"};
  words.insert(words.end(), report.words.begin(), report.words.end());
  const Outcome outcome = run_words(words);
  EXPECT_NE(outcome.out, "") << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

/// Seconds of the last step with the fix made.
double seconds_with(const FixedReport& report) {
  std::vector<std::string> words = {"simulate", test::data(report.file).string(), "--json", "-"};
  words.insert(words.end(), report.words.begin(), report.words.end());
  words.insert(words.end(), report.fix.begin(), report.fix.end());
  const json value = json::parse(run_words(words).out);
  const json& phases = value["devices"][0]["phases"];
  const auto step = phases.back()["step"];
  double out = 0;
  for (const json& phase : phases)
    if (phase["step"] == step) out += phase["seconds"].get<double>();
  return out;
}

class FixedBy : public ::testing::TestWithParam<FixedReport> {};

TEST_P(FixedBy, IsOfferedOrSomethingCheaper) {
  const FixedReport& report = GetParam();
  const json value = explained(report);
  ASSERT_FALSE(value.is_discarded());
  EXPECT_FALSE(value["fits"].get<bool>());
  if (report.gpus > 0) {
    const json& would = value["would_fit"];
    EXPECT_TRUE(std::any_of(would.begin(), would.end(), [&](const json& one) {
      return one["name"] == "gpus" && std::stoll(one["value"].get<std::string>()) <= report.gpus;
    })) << would.dump(1);
    return;
  }
  const json& changes = value["single_changes"];
  ASSERT_FALSE(changes.empty());
  const std::size_t first = std::min<std::size_t>(3, changes.size());
  bool offered = false;
  for (std::size_t i = 0; i < first; ++i) {
    EXPECT_TRUE(changes[i]["fits"].get<bool>());
    offered = offered || (!report.key.empty() && changes[i]["changes"].contains(report.key));
  }
  if (offered || (report.fix.empty() && report.key.empty())) return;
  ASSERT_FALSE(report.fix.empty()) << changes.dump(1);
  EXPECT_LE(changes[0]["seconds_per_step"].get<double>(), seconds_with(report));
}

/// The report says what the case takes it to say.
TEST_P(FixedBy, IsWhatTheReportSays) {
  const auto truth = test::truth();
  if (!truth) GTEST_SKIP() << "HEADROOM_TRUTH is not set";
  std::ifstream file(*truth / "reports" / "reports.json");
  const json reports = json::parse(file);
  const auto found = std::find_if(reports.begin(), reports.end(),
                                  [&](const json& one) { return one["id"] == GetParam().id; });
  ASSERT_NE(found, reports.end());
  EXPECT_THAT((*found)["fixed_by"].get<std::string>(), ::testing::HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(Reports, FixedBy, ::testing::ValuesIn(kReports), [](const auto& instance) {
  std::string name = instance.param.id;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace headroom::cli

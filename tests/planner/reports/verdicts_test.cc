#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/data.h"
#include "tests/support/report_verdict.h"

namespace headroom::test {
namespace {

/// tests/data/reports/verdicts.json, written by docs/regenerate_reports.sh beside docs/REPORTS.md.
TEST(PublicReports, NoVerdictGetsWorse) {
  const auto reports = read_public_reports(data("reports/verl.json"));
  ASSERT_TRUE(reports) << reports.error().text();
  std::ifstream file(data("reports/verdicts.json"));
  const nlohmann::json recorded = nlohmann::json::parse(file);
  int determined = 0, right = 0;
  for (const PublicReport& report : *reports) {
    const auto verdict = judge_report(report);
    ASSERT_TRUE(verdict) << report.id << ": " << verdict.error().text();
    const std::string word = verdict_word(*verdict);
    if (recorded.value(report.id, "") == "right") {
      EXPECT_EQ(word, "right") << report.id;
    }
    EXPECT_FALSE(word == "wrong" && verdict->fits) << report.id << " ran out of memory and is said to fit";
    determined += word != "undetermined";
    right += word == "right";
  }
  EXPECT_GE(determined, 16);
  EXPECT_GE(right * 100, determined * 85);
}

const PublicReport& report_of(const std::vector<PublicReport>& reports, const std::string& id) {
  return *std::find_if(reports.begin(), reports.end(), [&](const PublicReport& r) { return r.id == id; });
}

/// A report is undetermined because of what it does not state, not because of what Headroom makes of it.
TEST(PublicReports, NameWhatIsMissing) {
  const auto reports = read_public_reports(data("reports/verl.json"));
  ASSERT_TRUE(reports) << reports.error().text();
  EXPECT_EQ(report_of(*reports, "tinyzero-107").missing,
            (std::vector<std::string>{"actor_rollout_ref.model.path"}));
  EXPECT_EQ(report_of(*reports, "easyr1-552").missing.size(), 9u);
}

/// What a report says of its own goes before the script that it names.
TEST(PublicReports, ANamedScriptFillsInWhatIsLeftOut) {
  const auto reports = read_public_reports(data("reports/verl.json"));
  ASSERT_TRUE(reports) << reports.error().text();
  const PublicReport& report = report_of(*reports, "verl-doc-qwen3-30b-8gpu");
  EXPECT_TRUE(report.missing.empty());
  const auto has = [&](const std::string& text) {
    return std::count(report.overrides.begin(), report.overrides.end(), text);
  };
  EXPECT_EQ(has("++actor_rollout_ref.actor.megatron.expert_model_parallel_size=8"), 1);  // the report's
  EXPECT_EQ(has("++actor_rollout_ref.rollout.gpu_memory_utilization=0.7"), 1);           // the script's
}

TEST(PublicReports, ATriedSizeScalesTheSizesAlone) {
  const auto reports = read_public_reports(data("reports/verl.json"));
  ASSERT_TRUE(reports) << reports.error().text();
  std::vector<std::vector<std::string>> tried;
  for (const PublicReport& report : *reports)
    if (report.id.rfind("verl-tuning-14b-lora-2h100 @", 0) == 0) tried.push_back(report.overrides);
  ASSERT_EQ(tried.size(), 7u);
  for (const std::vector<std::string>& overrides : tried) {
    ASSERT_EQ(overrides.size(), tried.front().size());
    int different = 0;
    for (std::size_t i = 0; i < overrides.size(); ++i) different += overrides[i] != tried.front()[i];
    EXPECT_EQ(different, &overrides == &tried.front() ? 0 : 5);
  }
}

}  // namespace
}  // namespace headroom::test

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
  EXPECT_GE(determined, 20);
  EXPECT_GE(right * 100, determined * 80);
}

/// A report is undetermined because of what it does not state, not because of what Headroom makes of it.
TEST(PublicReports, NameWhatIsMissing) {
  const auto reports = read_public_reports(data("reports/verl.json"));
  ASSERT_TRUE(reports) << reports.error().text();
  const auto report = std::find_if(reports->begin(), reports->end(),
                                   [](const PublicReport& r) { return r.id == "verl-145"; });
  ASSERT_NE(report, reports->end());
  EXPECT_EQ(report->missing,
            (std::vector<std::string>{"actor_rollout_ref.actor.fsdp_config.optimizer_offload",
                                      "actor_rollout_ref.rollout.name", "actor_rollout_ref.rollout.n",
                                      "actor_rollout_ref.rollout.tensor_model_parallel_size",
                                      "actor_rollout_ref.rollout.gpu_memory_utilization"}));
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

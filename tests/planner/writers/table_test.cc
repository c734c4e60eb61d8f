#include "planner/writers/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/writers/csv.h"
#include "planner/writers/markdown.h"
#include "simulator/device/verdict.h"
#include "tests/planner/writers/sample.h"

namespace headroom::writers {
namespace {

using ::testing::HasSubstr;

TEST(Table, SaysWhatLeavesTheVerdictOpen) {
  Report report = test::sample_report();
  leave_undetermined(report, {"a.key=1", "b.key=2"});
  EXPECT_EQ(
      verdict(report),
      "undetermined: 15.00 GiB to spare, 59.00 + 2.00 margin of 76.00 GiB in generate (step 1) on GPU 0, but "
      "not modelled: a.key=1; not modelled: b.key=2");
}

TEST(Table, ShowsTheWorstStepOfEachPhaseAndWhatItsPeakIsMadeOf) {
  EXPECT_EQ(table(test::sample_report()), R"(qwen2.5-7b, GRPO · verl · simulator
fits: 15.00 GiB to spare, 59.00 + 2.00 margin of 76.00 GiB in generate (step 1) on GPU 0

GPU 0 (8 alike), GiB
  phase        step  GiB of the budget         device  margin  spare  reserved  allocated    host
  generate        1  ███████████████████░░░░░   59.00    2.00  15.00     58.00      58.00  120.25
  train_actor     0  █████████████░░░░░░░░░░░   40.00    1.00  35.00     39.00      39.00  120.25

At the highest peak: GPU 0 (8 alike) in generate (step 1), GiB
  engine_kv       40.25  68.2 %
  engine_weights   7.25  12.3 %
  optimizer        7.00  11.9 %
  weights          3.50   5.9 %
  context          1.00   1.7 %
  total           59.00

! run.yaml:14: rollout.gpu_memory_utilization: KV cache holds 12 sequences at once, 256 are asked for
Assumed:
  - every sequence is as long as the cap
)");
}

TEST(Table, SaysByHowMuchItDoesNotFit) {
  Report report = test::sample_report();
  report.budget = 60 * kGiB;
  report.fits = false;
  EXPECT_EQ(verdict(report),
            "does not fit: 1.00 GiB over, 59.00 + 2.00 margin of 60.00 GiB in generate (step 1) on GPU 0");
  EXPECT_THAT(table(report), HasSubstr("too much"));
}

TEST(Table, NamesAPhaseThatRunsOutOfMemory) {
  Report report = test::sample_report();
  report.devices[0].phases[1].processes[0].out_of_memory = "tried to allocate";
  report.fits = false;
  EXPECT_THAT(table(report), HasSubstr("out of memory"));
  EXPECT_THAT(verdict(report), HasSubstr("does not fit"));
}

TEST(Table, ShowsExpectedBesideWorst) {
  Report report = test::sample_report();
  report.devices[0].phases[1].expected_device = 30 * kGiB;
  EXPECT_THAT(table(report), HasSubstr("  expected  device  margin"));
  EXPECT_THAT(table(report), HasSubstr("   30.00   40.00    1.00"));
}

TEST(Table, AnEmptyReportIsShort) {
  EXPECT_EQ(table(Report{}), "fits\n");
}

TEST(Markdown, IsTheSameTable) {
  EXPECT_EQ(markdown(test::sample_report()), R"(### qwen2.5-7b, GRPO

**fits: 15.00 GiB to spare, 59.00 + 2.00 margin of 76.00 GiB in generate (step 1) on GPU 0**

GPU 0 (8 alike), GiB:

| phase | step | device | margin | spare | host |
| --- | ---: | ---: | ---: | ---: | ---: |
| generate | 1 | 59.00 | 2.00 | 15.00 | 120.25 |
| train\_actor | 0 | 40.00 | 1.00 | 35.00 | 120.25 |

At the highest peak, GPU 0 (8 alike) in generate (step 1):

| component | GiB |
| --- | ---: |
| weights | 3.50 |
| optimizer | 7.00 |
| context | 1.00 |
| engine\_weights | 7.25 |
| engine\_kv | 40.25 |

- :warning: rollout.gpu\_memory\_utilization: KV cache holds 12 sequences at once, 256 are asked for
)");
}

TEST(Csv, QuotesWhatNeedsIt) {
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"x\""), "\"say \"\"x\"\"\"");
}

TEST(Csv, HasOneRowAProcessWithAsManyFieldsAsTheHead) {
  Report report = test::sample_report();
  report.devices[0].phases[1].processes.clear();
  const std::string text = csv(report);
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size(); start = text.find('\n', start) + 1)
    lines.push_back(text.substr(start, text.find('\n', start) - start));
  ASSERT_EQ(lines.size(), 1u + 2 + 1 + 2);
  const auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  for (const std::string& line : lines) EXPECT_EQ(commas(line), commas(lines[0])) << line;
  EXPECT_THAT(lines[1],
              ::testing::StartsWith("0,8,,0,generate,55834574848,129117454336,2147483648,30.5,trainer,0,"));
}

}  // namespace
}  // namespace headroom::writers

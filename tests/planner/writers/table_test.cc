#include "planner/writers/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include <algorithm>

#include "planner/writers/csv.h"
#include "planner/writers/markdown.h"
#include "simulator/device/verdict.h"
#include "planner/writers/columns.h"
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
  phase        step  GiB of the budget         device  in use  margin  spare  reserved  allocated    host
  generate        1  ███████████████████░░░░░   59.00   59.00    2.00  15.00     12.00      10.50  120.25
  train_actor     0  █████████████░░░░░░░░░░░   40.00   40.00    1.00  35.00     12.00      10.50  120.25
step: the one in which a phase is highest (-1: before the first, 0: the first). device: everything on the card;
in use: without what allocators merely hold. reserved, allocated: PyTorch's max_memory_reserved and _allocated.

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
  EXPECT_THAT(table(report), HasSubstr("  expected  device  in use  margin"));
  EXPECT_THAT(table(report), HasSubstr("   30.00   40.00   40.00    1.00"));
}

TEST(Table, FoldsPhasesInWhichNothingChanges) {
  Report report = test::sample_report();
  std::vector<PhaseReport>& phases = report.devices[0].phases;
  for (const char* name : {"save_checkpoint", "weight_sync"}) {
    phases.push_back(phases[1]);
    phases.back().phase = name;
  }
  EXPECT_THAT(table(report), HasSubstr("  train_actor … weight_sync"));
  EXPECT_THAT(table(report), ::testing::Not(HasSubstr("save_checkpoint")));
  EXPECT_THAT(table(report, {.every_phase = true}), HasSubstr("  save_checkpoint"));
}

/// A peak of memory that is merely held names the phase that reserved it.
TEST(Table, SaysWhereHeldMemoryWasReserved) {
  Report report = test::sample_report();
  PhaseReport& train = report.devices[0].phases[1];
  train.processes[0].peak_reserved = 60 * kGiB;
  train.processes[0].peak_allocated = 50 * kGiB;
  train.processes[0].at_peak_allocated[Component::logits] = 39 * kGiB + kGiB / 2;
  PhaseReport sync = train;
  sync.phase = "weight_sync";
  sync.peak_device = 70 * kGiB;
  sync.processes[0].reserved_start = 60 * kGiB;
  sync.at_peak_device = {};
  sync.at_peak_device[Component::weights] = 20 * kGiB;
  sync.at_peak_device[Component::allocator_slack] = 50 * kGiB;
  report.devices[0].phases.push_back(sync);
  EXPECT_THAT(table(report), HasSubstr("50.00 GiB of it are cached since train_actor (step 0), which had 50.00 GiB "
                                       "allocated at its peak (logits 39.50, optimizer 7.00, weights 3.50); "
                                       "weight_sync itself uses 20.00"));
}

TEST(Table, PlainAndNarrow) {
  const std::string plain = table(test::sample_report(), {.plain = true});
  EXPECT_TRUE(std::all_of(plain.begin(), plain.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  EXPECT_THAT(plain, HasSubstr("####"));
  EXPECT_THAT(table(test::sample_report(), {.width = 80}), ::testing::Not(HasSubstr("█")));
  // Of the rows of numbers none is wider than a narrow terminal; the verdict's words stay.
  std::istringstream narrow(table(test::sample_report(), {.width = 60}));
  bool rows = false;
  for (std::string line; std::getline(narrow, line);) {
    rows = (rows || line.starts_with("GPU ")) && !line.empty();
    if (rows) {
      EXPECT_LE(shown_width(line), 60u) << line;
    }
  }
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
              ::testing::StartsWith(",0,8,,0,generate,55834574848,129117454336,2147483648,30.5,trainer,0,"));
}

}  // namespace
}  // namespace headroom::writers

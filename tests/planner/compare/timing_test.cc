#include "planner/compare/timing.h"

#include <gtest/gtest.h>

#include "planner/compare/corpus.h"
#include "tests/support/data.h"

namespace headroom::compare {
namespace {

const Corpus& recorded() {
  static const Corpus kCorpus = *read_corpus({test::data("rlhf"), test::data("time")});
  return kCorpus;
}

std::vector<Row> on_a_quiet_card() {
  std::vector<Row> out;
  for (const RecordedRun& run : recorded().runs)
    if (run.group == "time") out.insert(out.end(), run.rows.begin(), run.rows.end());
  return out;
}

TEST(Timing, FollowsRecordingsOnAQuietCard) {
  const TimeSummary phases = summarise(timed_rows(on_a_quiet_card()));
  EXPECT_GE(phases.rows, 40u);
  EXPECT_LE(phases.median, 12);
  EXPECT_GE(phases.spearman, 0.97);
  EXPECT_LE(summarise(timed_rows(on_a_quiet_card(), true)).median, 15);
}

// Most shared their card: the same phase of two steps differs by up to a half.
TEST(Timing, FollowsAllRecordings) {
  const TimeSummary phases = summarise(timed_rows(recorded().rows()));
  EXPECT_LE(phases.median, 24);
  EXPECT_LE(phases.p90, 56);
  EXPECT_GE(phases.spearman, 0.97);
}

// The same work several times in one process, on a host whose speed changes by half from second to second.
TEST(Timing, FollowsRepeatedSteps) {
  const Corpus repeated = *read_corpus({test::data("time_repeated")});
  const TimeSummary phases = summarise(timed_rows(repeated.rows()));
  EXPECT_GE(phases.rows, 280u);
  EXPECT_LE(phases.median, 20);
  EXPECT_LE(phases.p90, 40);
  EXPECT_GE(phases.spearman, 0.98);
}

TEST(Timing, TellsHowMuchTheSameWorkDiffers) {
  const auto row = [](const char* run, const char* phase, double predicted, double measured) {
    return TimedRow{.run = run, .phase = phase, .step = 1, .predicted = predicted, .measured = measured, .spent = {}};
  };
  const std::vector<TimedRow> rows = {row("a", "reward", 1, 1),       row("a", "reward", 1, 7),
                                      row("b", "reward", 1.005, 1.5), row("b", "generate", 1, 9),
                                      row("c", "reward", 2, 9)};
  const Spread spread = spread_of_equal_work(rows);
  EXPECT_EQ(spread.pairs, 2u);  // not of one run, of other phases or of other work
  EXPECT_NEAR(spread.worst, 100 * (7 / 1.5 - 1), 1e-9);
}

TEST(Timing, TellsWhatTheMiddleOfEqualWorkMisses) {
  const auto row = [](const char* run, double predicted, double measured) {
    return TimedRow{.run = run, .phase = "reward", .step = 1, .predicted = predicted, .measured = measured, .spent = {}};
  };
  const std::vector<TimedRow> rows = {row("a", 1, 1), row("b", 1, 4), row("c", 2, 9), row("c", 2, 3)};
  const TimeSummary middles = errors_of_middles(rows);
  EXPECT_EQ(middles.rows, 2u);  // what one run did alone tells nothing
  EXPECT_NEAR(middles.worst, 100, 1e-9);  // 2 s for 1 s
}

TEST(Timing, TellsWhatIsLeftAtEachRunsOwnSpeed) {
  const auto row = [](const char* run, double predicted, double measured) {
    return TimedRow{.run = run, .phase = "reward", .step = 1, .predicted = predicted, .measured = measured, .spent = {}};
  };
  // One run twice as slow as predicted, one as predicted but for a row.
  const std::vector<TimedRow> rows = {row("a", 1, 2), row("a", 3, 6), row("b", 1, 1), row("b", 1, 1), row("b", 2, 1)};
  const TimeSummary own = errors_at_own_speed(rows);
  EXPECT_NEAR(own.median, 0, 1e-9);
  EXPECT_NEAR(own.worst, 100, 1e-9);
  EXPECT_LE(errors_at_own_speed(timed_rows(recorded().rows())).median, 9);
}

TEST(Timing, TellsPhasesThatMoveOrEmpty) {
  std::size_t emptied = 0, copied = 0;
  for (const TimedRow& row : timed_rows(recorded().rows())) {
    if (row.emptied) ++emptied;
    if (!row.emptied && row.moves()) ++copied;
    if (row.run == "opt13-ppo-ec-all") {
      EXPECT_TRUE(row.moves()) << row.phase;
    }
    if (row.run == "opt13-ppo-none") {
      EXPECT_FALSE(row.moves()) << row.phase;
    }
  }
  EXPECT_GE(emptied, 24u);
  EXPECT_GE(copied, 20u);
}

TEST(Timing, SpendsAllOfItsSeconds) {
  for (const TimedRow& row : timed_rows(recorded().rows()))
    EXPECT_NEAR(row.predicted, row.spent.total(), 1e-9) << row.run << " " << row.phase;
}

}  // namespace
}  // namespace headroom::compare

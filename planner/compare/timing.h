#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/compare/comparison.h"

namespace headroom::compare {

/// One measured time beside its prediction, in seconds.
struct TimedRow {
  std::string run, phase;  ///< phase: `step` for all phases of a step together
  int step = 0;
  double predicted = 0, measured = 0;
  Seconds spent;  ///< predicted
  bool emptied = false;  ///< the cache was emptied at its end

  /// It moves tensors between GPU and host, or empties the cache.
  bool moves() const { return emptied || spent[Spent::copies] > 0.05 * predicted; }
  double error() const { return 100 * (predicted / measured - 1); }  ///< signed, in percent
};

/// Rows with measured seconds, from step 1 on: the first step also loads kernels and tunes, which is told
/// apart. `whole`: each step's rows added up.
std::vector<TimedRow> timed_rows(const std::vector<Row>& rows, bool whole = false);

/// Of the errors' sizes, in percent.
struct TimeSummary {
  std::size_t rows = 0;
  double median = 0, p90 = 0, worst = 0;
  double median_ratio = 0;  ///< predicted to measured
  double spearman = 0;      ///< of predicted and measured
};
TimeSummary summarise(std::span<const TimedRow> rows);

/// By how much the same work took longer in one recording than in another, in percent: pairs of a phase in two runs
/// that a prediction does not tell apart (seconds within 1 %). No prediction without the moment's speed of the host can
/// be nearer to all of them than half of it.
struct Spread {
  std::size_t pairs = 0;
  double median = 0, p90 = 0, worst = 0;
};
Spread spread_of_equal_work(std::span<const TimedRow> rows);

/// Errors, in percent, of a prediction that knows the middle of what each such work took in all its recordings: what is
/// left is the moment's speed of host and card. Rows: those of works that were recorded in two runs or more.
TimeSummary errors_of_middles(std::span<const TimedRow> rows);

/// Errors, in percent, of a prediction that also knows how fast each run's host and card were as a whole: the middle of
/// its rows' ratios. What is left is the program's and the moment's.
TimeSummary errors_at_own_speed(std::span<const TimedRow> rows);

/// docs/TIME.md: summaries by phase, then every row with its signed error and where the seconds go.
std::string time_document(const std::vector<Row>& rows);

}  // namespace headroom::compare

#pragma once

#include <string>
#include <vector>

#include "planner/compare/measured.h"
#include "simulator/report/report.h"
#include "simulator/report/trend.h"

namespace headroom::compare {

/// One phase, predicted against measured.
struct Row {
  std::string name;  ///< of the run
  MeasuredPhase measured;
  Bytes peak_allocated = 0, peak_reserved = 0;  ///< predicted
  std::int64_t n_allocs = 0;
  Seconds spent;           ///< predicted
  bool predicted = false;  ///< false: the prediction has no such phase

  /// Signed, in percent of what was measured; -100 where nothing was predicted.
  double allocated_error() const;
  double reserved_error() const;
};

/// Every measured phase with its prediction. Steps after the predicted ones are held against the last of
/// them.
std::vector<Row> compare(const Report& report, const Measured& measured);

/// An allocated peak within it is close: in percent.
inline constexpr double kCloseLimit = 0.1;

/// Errors in percent over rows.
struct Summary {
  std::int64_t phases = 0, allocated_exact = 0, allocated_close = 0, reserved_exact = 0, counts_equal = 0, counted = 0;
  double allocated_mean = 0, allocated_worst = 0;  ///< of absolute values
  double reserved_mean = 0, reserved_worst = 0;
};
Summary summarise(const std::vector<Row>& rows);

/// Limits within which a prediction agrees with a measurement, in percent.
inline constexpr double kAllocatedLimit = 0.5, kReservedLimit = 2.0;
bool agrees(const Summary& summary);

/// What the two sides are called. Of two runs (side.h) neither is the prediction: both files are named.
struct Sides {
  std::string first = "predicted", second = "measured";
  bool files = false;
};

/// Columns of text: a row a phase, then the summary.
std::string table(const std::vector<Row>& rows, const Sides& sides = {});
/// One line: whether both agree, and the worst errors.
std::string verdict(const std::vector<Row>& rows);
/// The same as Markdown, with a heading a run.
std::string markdown(const std::vector<Row>& rows, const Sides& sides = {});
std::string json(const std::vector<Row>& rows, const Sides& sides = {});

/// How the measured memory develops over the steps, phase by phase (simulator/report/trend.h).
std::vector<PhaseTrend> trends(const std::vector<Row>& rows);

}  // namespace headroom::compare

#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/base/bytes.h"

namespace headroom {

/// How a figure behaves over the steps of a run.
struct Trend {
  double first = 0;         ///< of the first step that counts
  double last = 0;          ///< mean of the last ten steps (of all that count where fewer)
  double slope = 0;         ///< a step, by least squares
  double significance = 0;  ///< slope over its standard error; infinite for a line without scatter
  bool grows = false;
  std::string why;  ///< of a growing figure, for people
};

/// Steps at the start that do not count: optimizer states come to exist in step 0, caches fill.
inline constexpr std::size_t kWarmUpSteps = 1;
/// Fewer steps after the warm-up say nothing.
inline constexpr std::size_t kEnoughSteps = 8;

/// `values`: one a step, in order. A figure grows when
///   * the mean of its last ten steps is above 1.5 times its first, or
///   * it rises by more than 1 % from end to end along a line whose slope is significant (over four standard
///     errors), in the whole run and again in its later half: a single jump, after which it stays, is no
///     growth.
/// O(steps).
Trend trend_of(std::span<const double> values);

/// What one step measured of one phase.
struct StepFigure {
  int step = 0;
  std::string phase;
  Bytes allocated = 0, reserved = 0;  ///< peaks
};

/// One phase over the steps.
struct PhaseTrend {
  std::string phase;
  std::size_t steps = 0;
  Trend allocated, reserved;
  Trend slack;  ///< reserved - allocated: what fragmentation and caching keep
  /// Reserved memory rises while what the program holds does not.
  bool fragments() const { return slack.grows && !allocated.grows; }
};

/// Phases in order of appearance, those with enough steps. Several rows of a phase in one step: the highest.
std::vector<PhaseTrend> phase_trends(std::span<const StepFigure> figures);

/// A sentence a finding; or that nothing grows. Empty without trends.
std::string trend_text(std::span<const PhaseTrend> trends);

}  // namespace headroom

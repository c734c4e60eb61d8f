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
  double slope = 0;         ///< a step, by least squares, beside a jump where the run has one
  double significance = 0;  ///< of the slope, in standard errors; infinite for a line without scatter
  bool grows = false;
  std::string why;  ///< of a growing figure, for people
};

/// Steps at the start that do not count: optimizer states come to exist in step 0, caches fill.
inline constexpr std::size_t kWarmUpSteps = 1;
/// Fewer steps after the warm-up say nothing.
inline constexpr std::size_t kEnoughSteps = 8;
/// A figure rises by more than so many of the blocks that it is counted in, or it does not grow.
inline constexpr int kLeastBlocks = 4;

/// `values`: one a step, in order, in bytes counted in whole `block`s. A figure grows when its slope is
/// significant in the whole run (over four standard errors; over three where the mean of its last ten steps
/// is above 1.5 times its first), goes on in the later half (over two and a half), and lifts it by more than
/// kLeastBlocks. How high the figure is beside its rise does not matter: a slow leak is one.
///
/// The slope is a least-squares line's. Where one jump upwards explains much of the scatter, the line is
/// fitted beside it, so that a single jump, wherever it stands, is no growth and hides none. Neighbouring
/// steps that scatter alike (a sawtooth) say less than independent ones: the standard error is widened by the
/// residuals' lag-one correlation r, sqrt((1 + r) / (1 - r)). Few steps: Student's t is brought to the normal
/// deviate of the same probability. O(steps).
Trend trend_of(std::span<const double> values, Bytes block);

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
  /// Reserved memory rises, and by more than what the program holds.
  bool fragments() const { return slack.grows && reserved.grows; }
};

/// Phases in order of appearance, those with enough steps. Several rows of a phase in one step: the highest.
std::vector<PhaseTrend> phase_trends(std::span<const StepFigure> figures);

/// A sentence a finding; or that nothing grows. Empty without trends.
std::string trend_text(std::span<const PhaseTrend> trends);

}  // namespace headroom

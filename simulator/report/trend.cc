#include "simulator/report/trend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace headroom {
namespace {

constexpr std::size_t kLastSteps = 10;
constexpr double kGrowthFactor = 1.5, kSignificant = 4.0, kSignificantOfLarge = 3.0, kGoesOn = 2.5;
// Allocated memory is counted in blocks of 512 bytes, reserved memory in segments of 2 MiB at least.
constexpr Bytes kBlock = 512, kSegment = 2 * kMiB;

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Values less their mean: exact where all are equal, since sums of whole bytes are.
std::vector<double> centred(std::span<const double> values) {
  const double middle = mean(values);
  std::vector<double> out(values.begin(), values.end());
  for (double& value : out) value -= middle;
  return out;
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// A least-squares line, beside a jump at one of the steps or none.
struct Fit {
  double slope = 0, jump = 0;
  double slope_square = 0;  ///< sum of squares of the steps, less what the jump explains of them
  std::vector<double> residuals;
  double scatter = 0;  ///< their sum of squares
};

/// `x`, `y`: centred. `at`: the first value after the jump; 0: no jump.
Fit fit_with_jump(std::span<const double> x, std::span<const double> y, std::size_t at) {
  const double n = static_cast<double>(x.size()), after = n - static_cast<double>(at);
  Fit out;
  const double xx = dot(x, x), xy = dot(x, y);
  if (at == 0) {
    out.slope_square = xx;
    out.slope = xy / xx;
  } else {
    const double jj = after * static_cast<double>(at) / n;
    double xj = 0, yj = 0;
    for (std::size_t i = at; i < x.size(); ++i) xj += x[i], yj += y[i];
    out.slope_square = xx - xj * xj / jj;
    out.slope = (xy - xj * yj / jj) / out.slope_square;
    out.jump = (yj - out.slope * xj) / jj;
  }
  out.residuals.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double step = at == 0 ? 0 : (i >= at ? 1 : 0) - after / n;
    out.residuals[i] = y[i] - out.slope * x[i] - out.jump * step;
  }
  out.scatter = dot(out.residuals, out.residuals);
  return out;
}

/// Where one jump upwards beside the line explains most; 0 where none does.
std::size_t best_jump(std::span<const double> x, std::span<const double> y) {
  const double n = static_cast<double>(x.size()), xx = dot(x, x), xy = dot(x, y);
  double xj = 0, yj = 0, most = 0;
  std::size_t best = 0;
  for (std::size_t at = x.size() - 1; at > 0; --at) {
    xj += x[at], yj += y[at];
    const double jj = (n - static_cast<double>(at)) * static_cast<double>(at) / n;
    const double slope = (xy - xj * yj / jj) / (xx - xj * xj / jj), jump = (yj - slope * xj) / jj;
    const double explained = slope * xy + jump * yj;
    if (jump > 0 && explained > most) most = explained, best = at;
  }
  return best;
}

/// By how much one jump must lower n·ln(scatter) to count: noise alone does so at its best step in about one
/// run of five hundred.
constexpr double kJumpEvidence = 16;
constexpr std::size_t kStepsForJump = 6;

struct Line {
  double slope = 0, significance = 0;
};

/// The normal deviate as rare as Student's `t` (Wallace 1959).
double normal_deviate(double t, double freedom) {
  const double size =
      (8 * freedom + 1) / (8 * freedom + 3) * std::sqrt(freedom * std::log1p(t * t / freedom));
  return std::copysign(size, t);
}

/// `exact`: residuals below it are rounding.
Line significance_of(const Fit& fit, double freedom, double exact) {
  Line out{.slope = fit.slope, .significance = 0};
  const double n = static_cast<double>(fit.residuals.size());
  if (std::abs(fit.slope) * n <= exact) return {};
  if (std::sqrt(fit.scatter / n) <= exact) {
    out.significance = std::copysign(std::numeric_limits<double>::infinity(), fit.slope);
    return out;
  }
  const std::span<const double> all(fit.residuals);
  double lag = dot(all.first(all.size() - 1), all.subspan(1)) / fit.scatter;
  lag = std::clamp(lag + (1 + 3 * lag) / n, 0.0, 0.95);  // estimates from few values are too low by so much
  const double error = std::sqrt(fit.scatter / freedom / fit.slope_square * (1 + lag) / (1 - lag));
  out.significance = normal_deviate(fit.slope / error, freedom);
  return out;
}

Line line_through(std::span<const double> values) {
  std::vector<double> x(values.size());
  std::iota(x.begin(), x.end(), 0.0);
  x = centred(x);
  const std::vector<double> y = centred(values);
  const double n = static_cast<double>(values.size());
  const double exact = 1e-12 * (std::abs(mean(values)) + std::sqrt(dot(y, y) / n));
  Fit best = fit_with_jump(x, y, 0);
  double freedom = n - 2;
  if (values.size() >= kStepsForJump && std::sqrt(best.scatter / n) > exact) {
    if (const std::size_t at = best_jump(x, y); at != 0) {
      Fit with = fit_with_jump(x, y, at);
      if (with.scatter < best.scatter * std::exp(-kJumpEvidence / n)) {
        best = std::move(with);
        freedom = n - 4;  // the jump's height and place
      }
    }
  }
  return significance_of(best, freedom, exact);
}

std::string growth(const Trend& trend) {
  return fmt::format("from {} to {}, {} a step ({})", format_gib(static_cast<Bytes>(trend.first)),
                     format_gib(static_cast<Bytes>(trend.last)),
                     format_bytes(static_cast<Bytes>(std::max(trend.slope, 0.0))), trend.why);
}

}  // namespace

Trend trend_of(std::span<const double> values, Bytes block) {
  Trend out;
  if (values.size() < kWarmUpSteps + kEnoughSteps) return out;
  const std::span<const double> counted = values.subspan(kWarmUpSteps);
  out.first = counted.front();
  out.last = mean(counted.last(std::min(counted.size(), kLastSteps)));
  const Line whole = line_through(counted);
  out.slope = whole.slope;
  out.significance = whole.significance;
  const bool large = out.first > 0 && out.last > kGrowthFactor * out.first;
  const double rise = whole.slope * static_cast<double>(counted.size() - 1);
  const std::span<const double> later = counted.last(counted.size() - counted.size() / 2);
  out.grows = whole.significance > (large ? kSignificantOfLarge : kSignificant) &&
              rise > static_cast<double>(kLeastBlocks * block) && line_through(later).significance > kGoesOn;
  if (!out.grows) return out;
  out.why = large ? fmt::format("the last steps hold {:.1f} times the first", out.last / out.first)
                  : std::string("a steady rise");
  return out;
}

std::vector<PhaseTrend> phase_trends(std::span<const StepFigure> figures) {
  std::vector<std::string> order;
  std::map<std::string, std::map<int, StepFigure>> phases;
  for (const StepFigure& figure : figures) {
    if (figure.step < 0) continue;
    auto& steps = phases[figure.phase];
    if (steps.empty()) order.push_back(figure.phase);
    StepFigure& kept = steps[figure.step];
    kept.allocated = std::max(kept.allocated, figure.allocated);
    kept.reserved = std::max(kept.reserved, figure.reserved);
  }
  std::vector<PhaseTrend> out;
  for (const std::string& phase : order) {
    const auto& steps = phases[phase];
    if (steps.size() < kWarmUpSteps + kEnoughSteps) continue;
    std::vector<double> allocated, reserved, slack;
    for (const auto& [step, figure] : steps) {
      allocated.push_back(static_cast<double>(figure.allocated));
      reserved.push_back(static_cast<double>(figure.reserved));
      slack.push_back(reserved.back() - allocated.back());
    }
    PhaseTrend& trend = out.emplace_back();
    trend.phase = phase;
    trend.steps = steps.size();
    trend.allocated = trend_of(allocated, kBlock);
    trend.reserved = trend_of(reserved, kSegment);
    trend.slack = trend_of(slack, kSegment);
  }
  return out;
}

std::string trend_text(std::span<const PhaseTrend> trends) {
  std::string text;
  for (const PhaseTrend& trend : trends) {
    if (trend.allocated.grows)
      text += fmt::format("memory grows in {}: allocated {}\n", trend.phase, growth(trend.allocated));
    if (trend.fragments())
      text += fmt::format("fragmentation accumulates in {}: reserved beyond allocated {}\n", trend.phase,
                          growth(trend.slack));
    if (trend.reserved.grows && !trend.allocated.grows && !trend.fragments())
      text += fmt::format("reserved memory grows in {}: {}\n", trend.phase, growth(trend.reserved));
  }
  if (text.empty() && !trends.empty())
    text = fmt::format("no memory grows over {} steps, and no fragmentation accumulates\n",
                       trends.front().steps);
  return text;
}

}  // namespace headroom

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
constexpr double kGrowthFactor = 1.5, kSignificant = 4.0, kLeastRise = 0.01;

struct Line {
  double slope = 0, significance = 0;
};

Line fit(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const double middle = (n - 1) / 2, mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double square = 0, product = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    square += x * x;
    product += x * (values[i] - mean);
  }
  Line line{.slope = product / square, .significance = 0};
  double scatter = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = values[i] - mean - line.slope * (static_cast<double>(i) - middle);
    scatter += error * error;
  }
  if (line.slope == 0) return line;
  const double standard_error = std::sqrt(scatter / (n - 2) / square);
  line.significance = standard_error > 0 ? line.slope / standard_error
                                         : std::copysign(std::numeric_limits<double>::infinity(), line.slope);
  return line;
}

bool rises(std::span<const double> values, const Line& line) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return line.significance > kSignificant &&
         line.slope * static_cast<double>(values.size() - 1) > kLeastRise * mean;
}

std::string growth(const Trend& trend) {
  return fmt::format("from {} to {}, {} a step ({})", format_gib(static_cast<Bytes>(trend.first)),
                     format_gib(static_cast<Bytes>(trend.last)),
                     format_bytes(static_cast<Bytes>(std::max(trend.slope, 0.0))), trend.why);
}

}  // namespace

Trend trend_of(std::span<const double> values) {
  Trend out;
  if (values.size() < kWarmUpSteps + kEnoughSteps) return out;
  const std::span<const double> counted = values.subspan(kWarmUpSteps);
  const std::span<const double> last = counted.last(std::min(counted.size(), kLastSteps));
  out.first = counted.front();
  out.last = std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(last.size());
  const Line whole = fit(counted);
  out.slope = whole.slope;
  out.significance = whole.significance;
  const std::span<const double> later = counted.last(counted.size() - counted.size() / 2);
  if (out.first > 0 && out.last > kGrowthFactor * out.first) {
    out.why = fmt::format("the last steps hold {:.1f} times the first", out.last / out.first);
  } else if (rises(counted, whole) && fit(later).significance > kSignificant) {
    out.why = "a steady rise";
  }
  out.grows = !out.why.empty();
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
    trend.allocated = trend_of(allocated);
    trend.reserved = trend_of(reserved);
    trend.slack = trend_of(slack);
    // Slack that is small beside the memory it lies in may double without meaning anything.
    const double least = kLeastRise * trend.reserved.last;
    if (trend.slack.last - trend.slack.first < least) trend.slack.grows = false;
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

#include "planner/search/value_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace headroom::search {
namespace {

constexpr double kHundredths = 100;

template <typename T>
std::optional<T> number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

std::string Scale::text(std::int64_t steps) const {
  return whole ? std::to_string(steps) : fmt::format("{}", static_cast<double>(steps) / kHundredths);
}

std::optional<std::int64_t> Scale::steps(const std::string& text) const {
  if (whole) return number<std::int64_t>(text);
  const std::optional<double> share = number<double>(text);
  if (!share || std::abs(*share) > 1) return {};
  return std::llround(*share * kHundredths);
}

std::optional<Scale> scale_of(const std::string& a, const std::string& b) {
  for (const Scale scale : {Scale{true}, Scale{false}})
    if (scale.steps(a) && scale.steps(b)) return scale;
  return {};
}

std::int64_t between(std::int64_t good, const Outcome& fits, std::int64_t bad, const Outcome& fails, bool halve) {
  double share = 0.5;
  if (!halve && fails.valid && !fails.breaks && fails.spare < 0 && fits.spare >= 0)
    share = static_cast<double>(fits.spare) / static_cast<double>(fits.spare - fails.spare);
  const std::int64_t at = good + std::llround(static_cast<double>(bad - good) * share);
  return std::clamp(at, std::min(good, bad) + 1, std::max(good, bad) - 1);
}

}  // namespace headroom::search

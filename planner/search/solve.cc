#include "planner/search/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace headroom::search {
namespace {

constexpr double kHundredth = 0.01;

/// Numbers between which there are others: in steps of one, or of a hundredth.
struct Scale {
  bool whole = true;
  std::string text(std::int64_t steps) const {
    return whole ? std::to_string(steps) : fmt::format("{}", static_cast<double>(steps) * kHundredth);
  }
};

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

std::optional<std::int64_t> hundredths(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || std::abs(number) > 1) return {};
  return std::llround(number / kHundredth);
}

/// Where memory would be used up, were it used evenly between `good` and `bad`; else the middle.
std::int64_t between(std::int64_t good, const Outcome& fits, std::int64_t bad, const Outcome& fails, bool halve) {
  const auto gap = static_cast<double>(bad - good);
  double share = 0.5;
  if (!halve && !fails.breaks && fails.spare < 0)
    share = static_cast<double>(fits.spare) / static_cast<double>(fits.spare - fails.spare);
  const std::int64_t at = good + std::llround(gap * share);
  const std::int64_t least = std::min(good, bad) + 1, most = std::max(good, bad) - 1;
  return std::clamp(at, least, most);
}

void refine(const TryValue& exact, Solution& solution) {
  if (!solution.beyond) return;
  Scale scale;
  std::optional<std::int64_t> fits = whole_number(solution.fits.value), fails = whole_number(solution.beyond->value);
  if (!fits || !fails) {
    scale.whole = false;
    fits = hundredths(solution.fits.value);
    fails = hundredths(solution.beyond->value);
  }
  if (!fits || !fails) return;
  std::int64_t good = *fits, bad = *fails;
  for (int round = 0; std::abs(bad - good) > 1; ++round) {
    // Every third time the middle, so that a bend does not hold it up.
    const std::int64_t middle = between(good, solution.fits.outcome, bad, solution.beyond->outcome, round % 3 == 2);
    const Tried tried{scale.text(middle), exact(scale.text(middle))};
    if (!tried.outcome.valid) return;
    (tried.outcome.fits ? good : bad) = middle;
    if (tried.outcome.fits)
      solution.fits = tried;
    else
      solution.beyond = tried;
  }
}

}  // namespace

Result<Solution> solve(const std::string& knob, std::vector<std::string> values, bool smallest,
                       const TryValue& quick, const TryValue& exact) {
  if (!smallest) std::reverse(values.begin(), values.end());  // from the far end: the first that fits is it
  std::optional<Tried> closest, beyond;
  std::string refusal;
  for (const std::string& value : values) {
    Tried tried{value, quick(value)};
    if (tried.outcome.valid && tried.outcome.fits) tried.outcome = exact(value);
    if (!tried.outcome.valid) {
      refusal = tried.outcome.refusal;
      continue;
    }
    if (tried.outcome.fits) {
      Solution solution{tried, beyond};
      // What the quick run said of the next value may be less than it takes.
      if (solution.beyond) solution.beyond->outcome = exact(solution.beyond->value);
      if (solution.beyond && solution.beyond->outcome.fits) solution.beyond.reset();
      refine(exact, solution);
      return solution;
    }
    beyond = tried;
    if (!closest || tried.outcome.spare > closest->outcome.spare) closest = tried;
  }
  if (!closest)
    return fail(Error{.message = "no value of it can run" + (refusal.empty() ? "" : ": " + refusal), .file = {}, .key = knob});
  return fail(Error{.message = fmt::format("no value of it fits; {} misses by {} in {}: that phase blocks, whatever "
                                           "this is set to",
                                           closest->value, format_gib(-closest->outcome.spare),
                                           closest->outcome.limiting_phase),
                    .file = {},
                    .key = knob});
}

}  // namespace headroom::search

#include "planner/search/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace headroom::search {
namespace {

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

Outcome run(const Setup& setup, const Knob& knob, const std::string& value, const Executor& executor) {
  const Result<Report> report = evaluate(setup, std::array{Choice{knob.name, value}}, executor);
  Outcome outcome;
  if (report) return outcome_of(*report);
  outcome.refusal = report.error().text();
  return outcome;
}

/// Between a value that fits and one that does not: halves the gap while the framework takes what lies
/// between.
void refine(const Setup& setup, const Knob& knob, const Executor& executor, Solution& solution) {
  const std::optional<std::int64_t> fits = whole_number(solution.value);
  const std::optional<std::int64_t> fails = solution.next ? whole_number(*solution.next) : std::nullopt;
  if (!fits || !fails) return;
  std::int64_t good = *fits, bad = *fails;
  while (std::abs(bad - good) > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    const Outcome outcome = run(setup, knob, std::to_string(middle), executor);
    if (!outcome.valid) return;
    if (outcome.fits) {
      good = middle;
      solution.outcome = outcome;
      solution.value = std::to_string(good);
    } else {
      bad = middle;
      solution.next = std::to_string(bad);
    }
  }
}

}  // namespace

Result<Solution> solve(const Setup& setup, const Knob& knob, bool smallest, const Executor& executor) {
  std::vector<std::string> values = knob.values;
  if (!smallest) std::reverse(values.begin(), values.end());  // from the far end: the first that fits is it
  std::optional<Outcome> closest;
  std::optional<std::string> beyond;
  for (const std::string& value : values) {
    const Outcome outcome = run(setup, knob, value, executor);
    if (outcome.valid && outcome.fits) {
      Solution solution{value, outcome, beyond};
      refine(setup, knob, executor, solution);
      return solution;
    }
    if (outcome.valid) beyond = value;
    if (outcome.valid && (!closest || outcome.spare > closest->spare)) closest = outcome;
  }
  if (!closest) return fail(Error{.message = "no value of it can run", .file = {}, .key = knob.name});
  return fail(Error{.message = fmt::format("no value of it fits; the best misses by {} in {}",
                                           format_gib(-closest->spare), closest->limiting_phase),
                    .file = {},
                    .key = knob.name});
}

}  // namespace headroom::search

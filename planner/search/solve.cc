#include "planner/search/solve.h"

#include <algorithm>
#include <cstdlib>

#include "planner/search/value_scale.h"

namespace headroom::search {
namespace {

void refine(const TryValue& exact, Solution& solution) {
  if (!solution.beyond) return;
  const std::optional<Scale> scale = scale_of(solution.fits->value, solution.beyond->value);
  if (!scale) return;
  std::int64_t good = *scale->steps(solution.fits->value), bad = *scale->steps(solution.beyond->value);
  for (int round = 0; std::abs(bad - good) > 1; ++round) {
    // Every third time the middle, so that a bend does not hold it up.
    const std::int64_t middle = between(good, solution.fits->outcome, bad, solution.beyond->outcome, round % 3 == 2);
    const Tried tried{scale->text(middle), exact(scale->text(middle))};
    if (!tried.outcome.valid) return;
    (tried.outcome.fits ? good : bad) = middle;
    (tried.outcome.fits ? solution.fits : solution.beyond) = tried;
  }
}

}  // namespace

Error nothing_runs(const std::string& knob, const std::string& refusal) {
  return Error{.message = "no value of it can run" + (refusal.empty() ? "" : ": " + refusal), .file = {}, .key = knob};
}

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
  if (!closest) return fail(nothing_runs(knob, refusal));
  return Solution{{}, closest};
}

}  // namespace headroom::search

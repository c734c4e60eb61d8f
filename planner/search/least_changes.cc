#include "planner/search/least_changes.h"

#include <algorithm>

#include "models/base/parallel.h"
#include "planner/search/changes.h"

namespace headroom::search {
namespace {

constexpr std::size_t kMostExact = 96;  // of those that the quick executor lets fit, the fastest
constexpr std::size_t kAtOnce = 8;

/// The fastest of `changes` that fits.
std::optional<std::vector<Choice>> first_that_fits(const Setup& setup, const std::vector<Change>& changes,
                                                   const Executor& exact) {
  for (std::size_t from = 0; from < std::min(kMostExact, changes.size()); from += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, changes.size() - from);
    std::vector<char> fits(count, 0);
    parallel_for(count, 0, [&](std::size_t i) {
      if (!changes[from + i].outcome.fits) return;
      const Result<Report> report = evaluate(setup, changes[from + i].choices, exact);
      fits[i] = report && report->fits;
    });
    const auto first = std::find(fits.begin(), fits.end(), 1);
    if (first != fits.end()) return changes[from + static_cast<std::size_t>(first - fits.begin())].choices;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Choice>> least_changes(const Setup& setup, const Space& space, const Executor& quick,
                                                 const Executor& exact) {
  const Result<Report> now = evaluate(setup, space.choices(space.current()), exact);
  if (now && now->fits) return space.choices(space.current());
  const std::vector<Change> singles = single_changes(setup, space, quick);
  if (auto one = first_that_fits(setup, singles, exact)) return one;
  return first_that_fits(setup, pairs_of(setup, space, quick, singles), exact);
}

}  // namespace headroom::search

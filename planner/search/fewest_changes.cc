#include "planner/search/fewest_changes.h"

#include <algorithm>
#include <set>
#include <vector>

namespace headroom::search {
namespace {

bool same(const Outcome& a, const Outcome& b) {
  if (a.valid != b.valid || a.seconds != b.seconds || a.peak_host != b.peak_host ||
      a.phases.size() != b.phases.size())
    return false;
  return std::equal(a.phases.begin(), a.phases.end(), b.phases.begin(), [](const auto& x, const auto& y) {
    return x.phase == y.phase && x.spare == y.spare;
  });
}

std::vector<Point> with_one_taken_back(const Point& point, const Point& start) {
  std::vector<Point> out;
  for (std::size_t i = 0; i < point.size(); ++i) {
    if (point[i] == start[i]) continue;
    out.push_back(point);
    out.back()[i] = start[i];
  }
  return out;
}

/// Every change that shows nowhere, taken back together.
Point without_idle_changes(const Point& point, const Point& start, const Outcome& now,
                           const Evaluate& quick) {
  const std::vector<Point> singles = with_one_taken_back(point, start);
  const std::vector<Outcome> outcomes = quick(singles);
  Point all = point;
  for (std::size_t k = 0; k < singles.size(); ++k)
    if (same(outcomes[k], now))
      for (std::size_t i = 0; i < point.size(); ++i)
        if (singles[k][i] != point[i]) all[i] = start[i];
  return all != point && same(quick(std::span(&all, 1)).front(), now) ? all : point;
}

}  // namespace

std::optional<Found> fewest_changes(const Space& space, const Evaluate& quick, const Evaluate& exact,
                                    const Found& winner, const FewestOptions& options) {
  const Point start = space.current();
  const double slowest = winner.quick.seconds * (1 + options.tolerance);
  int exact_runs = 0;
  std::optional<Found> best;
  const auto accept = [&](const Point& point, const Outcome& outcome) {
    ++exact_runs;
    const Outcome real = exact(std::span(&point, 1)).front();
    if (!real.valid || !real.fits || real.seconds > winner.outcome.seconds * (1 + options.tolerance)) return false;
    best = Found{point, real, outcome};
    return true;
  };
  Point point = without_idle_changes(winner.point, start, winner.quick, quick);
  if (point != winner.point && !accept(point, winner.quick)) point = winner.point;
  std::set<Point> tried;
  while (exact_runs < options.most_exact_runs) {
    const std::vector<Point> singles = with_one_taken_back(point, start);
    const std::vector<Outcome> outcomes = quick(singles);
    std::vector<std::size_t> order;
    for (std::size_t k = 0; k < singles.size(); ++k)
      if (outcomes[k].valid && outcomes[k].fits && outcomes[k].seconds <= slowest && !tried.contains(singles[k]))
        order.push_back(k);
    if (order.empty()) break;
    const std::size_t next = *std::min_element(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return outcomes[a].seconds != outcomes[b].seconds ? outcomes[a].seconds < outcomes[b].seconds
                                                        : outcomes[a].spare > outcomes[b].spare;
    });
    tried.insert(singles[next]);
    if (accept(singles[next], outcomes[next])) point = singles[next];
  }
  return best;
}

}  // namespace headroom::search

#include "planner/search/search.h"

#include <algorithm>

namespace headroom::search {
namespace {

constexpr double kRunWhole = 1000;  // configurations
constexpr std::size_t kSwapLeaders = 3;

}  // namespace

Search::Search(const Space& space, Evaluate evaluate, const Options& options)
    : space_(space), evaluate_(std::move(evaluate)), options_(options) {}

Findings Search::run() {
  if (space_.size() > kRunWhole) {
    climb();
  } else {
    evaluate(everything());
  }
  return result();
}

Outcome Search::learn(const Point& point, const Outcome& exact) {
  options_.most_evaluations += options_.more_evaluations;
  evaluate({point});
  const Outcome quick = known_.at(point).quick;
  if (!quick.valid || !exact.valid) return quick;
  slack_.learn(point, quick, exact);
  for (auto& [one, known] : known_) known.expected = slack_.expected(one, known.quick);
  return quick;
}

std::vector<Point> Search::everything() const {
  std::vector<Point> points(1);
  for (const Dimension& dimension : space_.dimensions) {
    std::vector<Point> longer;
    for (const Point& point : points)
      for (std::size_t value = 0; value < dimension.values.size(); ++value) {
        longer.push_back(point);
        longer.back().push_back(static_cast<std::uint16_t>(value));
      }
    points = std::move(longer);
  }
  return points;
}

std::vector<Point> Search::neighbours(const Point& point) const {
  std::vector<Point> points;
  for (std::size_t i = 0; i < point.size(); ++i)
    for (std::size_t value = 0; value < space_.dimensions[i].values.size(); ++value) {
      if (value == point[i]) continue;
      points.push_back(point);
      points.back()[i] = static_cast<std::uint16_t>(value);
    }
  return points;
}

void Search::evaluate(const std::vector<Point>& points) {
  std::set<Point> distinct;
  for (const Point& point : points)
    if (!known_.contains(point)) distinct.insert(point);
  const std::size_t left = options_.most_evaluations - std::min(options_.most_evaluations, known_.size());
  std::vector<Point> fresh(distinct.begin(), distinct.end());
  if (fresh.size() > left) fresh.resize(left);
  const std::vector<Outcome> outcomes = evaluate_(fresh);
  for (std::size_t i = 0; i < fresh.size(); ++i)
    known_.emplace(fresh[i], Known{outcomes[i], slack_.expected(fresh[i], outcomes[i])});
}

/// The run with every knob at the value that alone spares most.
Point Search::frugal() const {
  const Point start = space_.current();
  Point frugal = start;
  for (std::size_t i = 0; i < start.size(); ++i) {
    Point trial = start;
    const Outcome* best = &known_.at(start).expected;
    for (std::size_t value = 0; value < space_.dimensions[i].values.size(); ++value) {
      trial[i] = static_cast<std::uint16_t>(value);
      const auto found = known_.find(trial);
      if (found == known_.end()) continue;
      const Outcome& outcome = found->second.expected;
      if (!outcome.valid || outcome.breaks || (outcome.spare <= best->spare && !best->breaks)) continue;
      best = &outcome;
      frugal[i] = trial[i];
    }
  }
  return frugal;
}

std::size_t Search::distance(const Point& point) const {
  const Point start = space_.current();
  std::size_t changes = 0;
  for (std::size_t i = 0; i < point.size(); ++i) changes += point[i] != start[i] ? 1 : 0;
  return changes;
}

/// Better, then fewer changes against the run, then the smaller point: a total order.
bool Search::before(const Point& a, const Outcome& oa, const Point& b, const Outcome& ob,
                    Objective objective) const {
  if (better(oa, ob, objective)) return true;
  if (better(ob, oa, objective)) return false;
  const std::size_t da = distance(a), db = distance(b);
  return da != db ? da < db : a < b;
}

std::vector<Point> Search::leaders(std::size_t count, Objective objective) const {
  std::vector<const std::pair<const Point, Known>*> rows;
  for (const auto& row : known_)
    if (row.second.expected.valid) rows.push_back(&row);
  count = std::min(count, rows.size());
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count), rows.end(),
                    [&](const auto* a, const auto* b) {
                      return before(a->first, a->second.expected, b->first, b->second.expected, objective);
                    });
  std::vector<Point> points;
  for (std::size_t i = 0; i < count; ++i) points.push_back(rows[i]->first);
  return points;
}

void Search::climb() {
  const Point start = space_.current();
  evaluate({start});
  evaluate(neighbours(start));
  evaluate({frugal()});
  expanded_.insert(start);
  do {
    climb_by_single_changes();
  } while (known_.size() < options_.most_evaluations && swaps_help());
}

void Search::climb_by_single_changes() {
  for (std::size_t round = 0; round < options_.most_rounds; ++round) {
    std::vector<Point> next;
    for (const Objective objective : {options_.objective, Objective::memory})
      for (const Point& leader : leaders(options_.beam, objective))
        if (expanded_.insert(leader).second)
          for (Point& neighbour : neighbours(leader)) next.push_back(std::move(neighbour));
    if (next.empty() || known_.size() >= options_.most_evaluations) break;
    evaluate(next);
  }
}

/// Around each of the best, two knobs at once: one that frees memory pays for one that saves time. True
/// when a better configuration came out.
bool Search::swaps_help() {
  const std::vector<Point> best = leaders(kSwapLeaders, options_.objective);
  std::vector<Point> pairs;
  for (const Point& leader : best)
    if (swapped_.insert(leader).second) add_swaps(leader, pairs);
  evaluate(pairs);
  return !pairs.empty() && leaders(1, options_.objective)[0] != best[0];
}

/// Pairs of changes to `leader`; only changes that show alone take part.
void Search::add_swaps(const Point& leader, std::vector<Point>& pairs) const {
  const Outcome& before = known_.at(leader).expected;
  std::vector<std::pair<std::size_t, std::uint16_t>> moves;
  for (const Point& neighbour : neighbours(leader)) {
    const auto found = known_.find(neighbour);  // missing when the rounds ran out
    if (found == known_.end() || !found->second.expected.valid) continue;
    const Outcome& after = found->second.expected;
    if (after.seconds == before.seconds && after.spare == before.spare) continue;
    const auto [here, there] = std::mismatch(leader.begin(), leader.end(), neighbour.begin());
    moves.emplace_back(here - leader.begin(), *there);
  }
  for (std::size_t a = 0; a < moves.size(); ++a)
    for (std::size_t b = a + 1; b < moves.size(); ++b) {
      if (moves[a].first == moves[b].first) continue;
      pairs.push_back(leader);
      pairs.back()[moves[a].first] = moves[a].second;
      pairs.back()[moves[b].first] = moves[b].second;
    }
}

Findings Search::result() const {
  Findings out;
  out.space = space_.size();
  for (const auto& [point, known] : known_) {
    const Outcome& outcome = known.expected;
    if (!outcome.valid) {
      ++out.pruned;
      continue;
    }
    ++out.evaluated;
    (outcome.fits ? out.feasible : out.nearest).push_back({point, outcome, known.quick});
  }
  for (std::vector<Found>* list : {&out.feasible, &out.nearest})
    std::sort(list->begin(), list->end(), [&](const Found& a, const Found& b) {
      return before(a.point, a.outcome, b.point, b.outcome, options_.objective);
    });
  return out;
}

Findings search(const Space& space, const Evaluate& evaluate, const Options& options) {
  return Search(space, evaluate, options).run();
}

std::vector<Found> pareto(std::span<const Found> found) {
  std::vector<Found> sorted(found.begin(), found.end());
  std::sort(sorted.begin(), sorted.end(), [](const Found& a, const Found& b) {
    return a.outcome.seconds != b.outcome.seconds ? a.outcome.seconds < b.outcome.seconds
           : a.outcome.spare != b.outcome.spare   ? a.outcome.spare > b.outcome.spare
                                                  : a.point < b.point;
  });
  std::vector<Found> front;
  for (Found& one : sorted)
    if (front.empty() || one.outcome.spare > front.back().outcome.spare) front.push_back(std::move(one));
  return front;
}

}  // namespace headroom::search

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "planner/search/outcome.h"
#include "planner/search/slack.h"
#include "planner/search/space.h"

namespace headroom::search {

/// Outcomes of `points`, in their order. Called from one thread; may use several inside.
using Evaluate = std::function<std::vector<Outcome>(std::span<const Point> points)>;

struct Options {
  Objective objective = Objective::time;
  std::size_t beam = 6;  ///< configurations carried from round to round
  std::size_t most_rounds = 40;
  std::size_t most_evaluations = 1'500;
  std::size_t more_evaluations = 100;  ///< beyond those, each time that something was learned
};

struct Found {
  Point point;
  Outcome outcome;  ///< as expected of an exact run
  Outcome quick;    ///< as evaluated
};

struct Findings {
  std::vector<Found> feasible;  ///< every one met that is expected to fit, best first
  std::vector<Found> nearest;   ///< the others: those that miss by least first
  std::int64_t evaluated = 0;   ///< distinct configurations run
  std::int64_t pruned = 0;      ///< left out because the framework refuses the combination
  double space = 0;             ///< configurations there are
};

/// Looks for the best configurations of a space.
///
/// From the run's own configuration and from the one that spares most in each knob alone, it changes one knob
/// at a time and carries the best few on; when that brings nothing better, pairs of changes to the best are
/// tried, which find trades of memory against time. Knobs whose change alone does not help but that free
/// memory others need are reached through the configurations that spare most, which are carried beside the
/// fastest. Small spaces (up to a thousand configurations) are run whole. Deterministic.
///
/// What exact runs then show is learned (`Slack`): searching on, all that is known is ranked anew and the
/// climb goes on from there. References must outlive it.
class Search {
 public:
  Search(const Space& space, Evaluate evaluate, const Options& options = {});

  /// Searches, or searches on after something was learned.
  Findings run();

  /// An exact run of `point` came to `exact`. Gives what `point` was evaluated to.
  Outcome learn(const Point& point, const Outcome& exact);

 private:
  struct Known {
    Outcome quick, expected;
  };

  std::vector<Point> everything() const;
  std::vector<Point> neighbours(const Point& point) const;
  void evaluate(const std::vector<Point>& points);
  Point frugal() const;
  std::size_t distance(const Point& point) const;
  bool before(const Point& a, const Outcome& oa, const Point& b, const Outcome& ob,
              Objective objective) const;
  std::vector<Point> leaders(std::size_t count, Objective objective) const;
  void climb();
  void climb_by_single_changes();
  bool swaps_help();
  void add_swaps(const Point& leader, std::vector<Point>& pairs) const;
  Findings result() const;

  const Space& space_;
  Evaluate evaluate_;
  Options options_;
  Slack slack_;
  std::map<Point, Known> known_;
  std::set<Point> expanded_;  ///< whose neighbours are known
  std::set<Point> swapped_;   ///< whose swaps are known
};

/// One search from nothing.
Findings search(const Space& space, const Evaluate& evaluate, const Options& options = {});

/// Those of `found` that no other beats in both step time and spare memory, fastest first.
std::vector<Found> pareto(std::span<const Found> found);

}  // namespace headroom::search

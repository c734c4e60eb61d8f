#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planner/search/outcome.h"
#include "planner/search/space.h"

namespace headroom::search {

/// Outcomes of `points`, in their order. Called from one thread; may use several inside.
using Evaluate = std::function<std::vector<Outcome>(std::span<const Point> points)>;

struct Options {
  Objective objective = Objective::time;
  std::size_t beam = 6;  ///< configurations carried from round to round
  std::size_t most_rounds = 40;
  std::size_t most_evaluations = 1'500;
};

struct Found {
  Point point;
  Outcome outcome;
};

struct Findings {
  std::vector<Found> feasible;  ///< every one met, best first
  std::vector<Found> nearest;   ///< when none fits: those that miss by least, best first
  std::int64_t evaluated = 0;   ///< distinct configurations run
  std::int64_t pruned = 0;      ///< left out because the framework refuses the combination
  double space = 0;             ///< configurations there are
};

/// Looks for the best configurations of `space`.
///
/// From the run's own configuration and from the one that spares most in each knob alone, it changes one knob
/// at a time and carries the best few on; when that brings nothing better, pairs of changes to the best are
/// tried, which find trades of memory against time. Knobs whose change alone does not help but that free
/// memory others need are reached through the configurations that spare most, which are carried beside the
/// fastest. Small spaces (up to a thousand configurations) are run whole. Deterministic.
Findings search(const Space& space, const Evaluate& evaluate, const Options& options = {});

/// Those of `found` that no other beats in both step time and spare memory, fastest first.
std::vector<Found> pareto(std::span<const Found> found);

}  // namespace headroom::search

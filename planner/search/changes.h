#pragma once

#include <vector>

#include "planner/search/evaluator.h"

namespace headroom::search {

/// One knob or two turned, and what comes of it.
struct Change {
  std::vector<Choice> choices;
  std::vector<Setting> settings;
  Outcome outcome;
};

/// What an exact run says, with what is missing by a quick one where it stopped: a run that runs out of memory shows
/// what its card has, not what it needs.
Outcome with_shortfall(Outcome exact, const Outcome& quick);

/// Those of `changes` (in their order) that `executor` says fit, the first `wanted` of them (of one knob two values), with its outcomes;
/// the first `wanted` of all when none fits. Sorted again.
std::vector<Change> confirmed(const Setup& setup, const std::vector<Change>& changes, std::size_t wanted,
                              const Executor& executor);

/// Every single change of the run, run by `executor`: those that fit first, the fastest first; then those
/// that do not, by how little is missing. Changes without effect and refused ones are left out.
std::vector<Change> single_changes(const Setup& setup, const Space& space, const Executor& executor);

/// Pairs of those of `singles` that free most (the most frugal values of each knob), in the same order.
std::vector<Change> pairs_of(const Setup& setup, const Space& space, const Executor& executor,
                             const std::vector<Change>& singles);

}  // namespace headroom::search

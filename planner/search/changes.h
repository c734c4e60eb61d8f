#pragma once

#include <vector>

#include "planner/search/evaluator.h"

namespace headroom::search {

/// One knob turned, and what comes of it.
struct Change {
  Choice choice;
  std::vector<Setting> settings;
  Outcome outcome;
};

/// Those of `changes` (in their order) that `executor` says fit, the first `wanted` of them, with its outcomes;
/// the first `wanted` of all when none fits. Sorted again.
std::vector<Change> confirmed(const Setup& setup, const std::vector<Change>& changes, std::size_t wanted,
                              const Executor& executor);

/// Every single change of the run, run by `executor`: those that fit first, the fastest first; then those
/// that do not, by how little is missing. Changes without effect and refused ones are left out.
std::vector<Change> single_changes(const Setup& setup, const Space& space, const Executor& executor);

}  // namespace headroom::search

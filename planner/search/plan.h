#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/evaluator.h"

namespace headroom::search {

/// One recommendation.
struct PlanChoice {
  std::vector<Choice> choices;    ///< knobs that differ from the run
  std::vector<Setting> settings;  ///< the same in the framework's own keys
  Outcome outcome;                ///< by the confirming executor where `confirmed`
  std::optional<Report> report;   ///< of the confirming executor
  bool confirmed = false;
  bool pareto = false;  ///< no other is both faster and leaves more memory
};

struct Plan {
  Outcome now;                      ///< the run as given; not valid when it cannot run
  std::vector<PlanChoice> choices;  ///< those that fit, best first
  std::vector<PlanChoice> nearest;  ///< when none fits: what misses by least
  double space = 0;
  std::int64_t evaluated = 0, pruned = 0, feasible = 0, confirmed = 0;
  double seconds = 0;  ///< spent searching
};

struct PlanOptions {
  Options search;
  std::size_t top = 5;
};

/// Searches `space` with `fast` and confirms the leaders with `exact`, which decides: a leader that does not
/// fit there is dropped and the next one takes its place. At most four times `top` are tried. The input
/// itself is among the candidates when it fits. Errors: none of the space's configurations can run at all
/// (the first refusal is given).
Result<Plan> make_plan(const Setup& setup, const Space& space, const Executor& fast, const Executor& exact,
                       const PlanOptions& options);

}  // namespace headroom::search

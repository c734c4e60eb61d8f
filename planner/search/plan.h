#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/search/evaluator.h"
#include "planner/search/explanation.h"
#include "planner/search/proof.h"

namespace headroom::search {

/// What one change of a recommendation gives and takes, all others made.
struct PlanPart {
  Technique technique;  ///< against the recommendation without it
  Outcome without;      ///< not valid: the framework refuses the others without it
};

/// One recommendation.
struct PlanChoice {
  std::vector<Choice> choices;    ///< knobs that differ from the run
  std::vector<Setting> settings;  ///< the same in the framework's own keys
  Outcome outcome;                ///< by the confirming executor where `confirmed`
  std::optional<Report> report;   ///< of the confirming executor
  bool confirmed = false;
  bool pareto = false;  ///< no other is as good in seconds, spare and host memory, and better in one of them
  std::vector<PlanPart> parts;  ///< of the first choice, by the quick executor
  bool fewest = false;  ///< the fewest changes that come within 2 % of the fastest
};

struct Plan {
  Outcome now;                      ///< the run as given, confirmed; not valid when it cannot run
  std::vector<PlanChoice> choices;  ///< those that fit, best first
  std::vector<PlanChoice> nearest;  ///< when none fits: what misses by least
  double space = 0;
  std::int64_t evaluated = 0, pruned = 0;
  std::int64_t feasible = 0;   ///< of those evaluated: expected to fit after all that was confirmed
  std::int64_t tried = 0;      ///< run by the confirming executor
  std::int64_t confirmed = 0;  ///< of those: fit there too
  bool exhausted = false;      ///< everything met that could fit was tried
  bool stopped = false;        ///< somebody asked to: the choices are what was found by then
  std::optional<Proof> proof;  ///< what became of the whole space; none: another objective than time
  std::vector<Would> would;  ///< where none fits and somebody looked: what would make the run fit
  double seconds = 0;          ///< spent searching
};

/// What configurations are run by.
struct Executors {
  Executor quick;  ///< never more memory than `exact` finds
  Executor exact;  ///< decides what fits
  /// As `quick` for a look at some phases alone, which then depend on nothing but what touches them, so that the
  /// whole space can be decided by tables (`Prover`). What it says of other phases counts for nothing. Empty: not
  /// known for this run.
  std::function<Executor(std::span<const std::string> phases)> own = {};
};

struct PlanOptions {
  Options search;
  std::size_t top = 5;
  std::size_t most_tries = 24;  ///< runs of the confirming executor, before the proof
  bool prove = true;            ///< that nothing is faster than the best found
  /// Rather than the fastest step the fewest changes with which the run fits: one or two knobs where that is enough
  /// (`least_changes`), else the fastest with all taken back that it fits without.
  bool least_changes = false;
  ProofOptions proof;
  /// Asked now and then; once true, the search ends with what it has. A proof knows no best until it is done: then a
  /// few configurations are looked at in its place.
  std::function<bool()> stopped = {};
};

/// Finds the best configurations of `space`; `executors.exact` alone decides what fits.
///
/// For the fastest step the whole space is decided (`Prover`) where that can be. Elsewhere, and where the proof ran
/// out of what it was allowed, leaders of a search are confirmed: each confirmation teaches by how much the exact
/// executor takes more, phase by phase, and ranks what is known anew; configurations that are expected not to fit
/// then are passed over, and the search goes on. When nothing is expected to fit and nothing has, those that
/// `quick` lets fit are tried all the same, the one that is expected to spare most first. It ends when the `top`
/// best (and at least five) are confirmed, when everything that could fit was tried, or after `most_tries` exact
/// runs. Of the best, the version with the fewest changes that comes within 2 % leads. The input itself is
/// confirmed, too. Errors: none of the space's configurations can run at all (the first refusal is given).
Result<Plan> make_plan(const Setup& setup, const Space& space, const Executors& executors,
                       const PlanOptions& options);

}  // namespace headroom::search

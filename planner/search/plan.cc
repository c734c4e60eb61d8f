#include "planner/search/plan.h"

#include <algorithm>
#include <chrono>

namespace headroom::search {
namespace {

constexpr std::int64_t kTriesPerPlace = 8;

/// Configurations that differ in nothing that is shown: a knob without effect was turned.
bool alike(const Outcome& a, const Outcome& b) {
  return a.seconds == b.seconds && a.spare == b.spare && a.peak_host == b.peak_host;
}

Result<PlanChoice> confirm(const Setup& setup, const Space& space, const Found& found,
                           const Executor& exact) {
  PlanChoice choice;
  choice.choices = space.choices(found.point);
  HEADROOM_ASSIGN(choice.settings, setup.framework->settings_of(*setup.read, choice.choices));
  HEADROOM_ASSIGN(Report report, evaluate(setup, choice.choices, exact));
  choice.outcome = outcome_of(report);
  choice.report = std::move(report);
  choice.confirmed = true;
  return choice;
}

void mark_pareto(std::vector<PlanChoice>& choices) {
  for (PlanChoice& choice : choices)
    choice.pareto = std::none_of(choices.begin(), choices.end(), [&](const PlanChoice& other) {
      const bool no_worse =
          other.outcome.seconds <= choice.outcome.seconds && other.outcome.spare >= choice.outcome.spare;
      const bool differs =
          other.outcome.seconds != choice.outcome.seconds || other.outcome.spare != choice.outcome.spare;
      return no_worse && differs;
    });
}

void confirm_leaders(const Setup& setup, const Space& space, const Findings& findings, const Executor& exact,
                     const PlanOptions& options, Plan& plan) {
  const std::int64_t most = kTriesPerPlace * static_cast<std::int64_t>(options.top);
  const Outcome* last = nullptr;  // equal ones are neighbours in the order, the least changed first
  Bytes optimism = 0;             // by which the fast executor was seen to be too hopeful: fragmentation
  for (const Found& found : findings.feasible) {
    if (plan.choices.size() == options.top || plan.confirmed == most) break;
    if (last != nullptr && alike(*last, found.outcome)) continue;
    last = &found.outcome;
    if (found.outcome.spare < optimism) continue;
    Result<PlanChoice> choice = confirm(setup, space, found, exact);
    ++plan.confirmed;
    if (!choice) continue;
    if (choice->outcome.fits) {
      plan.choices.push_back(std::move(*choice));
    } else {
      // What is closer to the budget than half of that would fail alike.
      optimism = std::max(optimism, (found.outcome.spare - choice->outcome.spare) / 2);
    }
  }
  std::stable_sort(plan.choices.begin(), plan.choices.end(), [&](const PlanChoice& a, const PlanChoice& b) {
    return better(a.outcome, b.outcome, options.search.objective);
  });
  mark_pareto(plan.choices);
}

}  // namespace

Result<Plan> make_plan(const Setup& setup, const Space& space, const Executor& fast, const Executor& exact,
                       const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Evaluator evaluator(setup, space, fast);
  const Findings findings = search(space, std::cref(evaluator), options.search);
  Plan plan;
  plan.space = findings.space;
  plan.evaluated = findings.evaluated;
  plan.pruned = findings.pruned;
  plan.feasible = static_cast<std::int64_t>(findings.feasible.size());
  if (findings.evaluated == 0) {
    const std::vector<Choice> none = space.choices(space.current());
    HEADROOM_ASSIGN(const Report report, evaluate(setup, none, fast));
    return fail("no configuration of the space can run");
  }
  if (const Result<Report> now = evaluate(setup, {}, fast)) plan.now = outcome_of(*now);
  confirm_leaders(setup, space, findings, exact, options, plan);
  if (plan.choices.empty())
    for (std::size_t i = 0; i < std::min(options.top, findings.nearest.size()); ++i) {
      PlanChoice choice;
      choice.choices = space.choices(findings.nearest[i].point);
      HEADROOM_ASSIGN(choice.settings, setup.framework->settings_of(*setup.read, choice.choices));
      choice.outcome = findings.nearest[i].outcome;
      plan.nearest.push_back(std::move(choice));
    }
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace headroom::search

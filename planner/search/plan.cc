#include "planner/search/plan.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <set>

#include "models/base/parallel.h"

#include "planner/search/fewest_changes.h"
#include "planner/search/least_changes.h"

namespace headroom::search {
namespace {

/// How many of the best are confirmed at least, so that the first does not depend on how many are shown: each
/// confirmation teaches what the others need.
constexpr std::size_t kAlwaysConfirmed = 5;

/// What is looked at when a proof was stopped.
constexpr std::size_t kStoppedEvaluations = 60, kStoppedTries = 4;

constexpr std::size_t kAtOnce =
    2;  // exact runs, whatever the machine: what they teach decides what comes next

/// `executor` until somebody asks to stop: then nothing runs any more.
Executor until(const std::function<bool()>& stopped, const Executor& executor) {
  if (!stopped) return executor;
  return [stopped, executor](const Job& job, const Hardware& hardware) -> Result<Report> {
    if (stopped()) return fail("stopped");
    return executor(job, hardware);
  };
}

constexpr double kAnySlower = 1e6;  // times the fastest: how slow it gets does not matter
constexpr int kMostTakenBack = 24;  // exact runs

/// Configurations that differ in nothing that is shown: a knob without effect was turned.
bool alike(const Outcome& a, const Outcome& b) {
  return a.seconds == b.seconds && a.spare == b.spare && a.peak_host == b.peak_host;
}

/// In every phase at least as much as `other`.
bool needs_no_less(const Outcome& one, const Outcome& other) {
  return std::all_of(other.phases.begin(), other.phases.end(), [&](const PhaseOutcome& phase) {
    const auto same = std::find_if(one.phases.begin(), one.phases.end(),
                                   [&](const PhaseOutcome& mine) { return mine.phase == phase.phase; });
    return same != one.phases.end() && same->spare <= phase.spare;
  });
}

/// One configuration by the exact executor, as a choice.
Result<PlanChoice> confirmed_choice(const Setup& setup, const Executor& exact, std::vector<Choice> choices) {
  PlanChoice choice;
  choice.choices = std::move(choices);
  HEADROOM_ASSIGN(choice.settings, setup.framework->settings_of(*setup.read, choice.choices));
  HEADROOM_ASSIGN(Report report, evaluate(setup, choice.choices, exact));
  choice.outcome = outcome_of(report);
  choice.report = std::move(report);
  choice.confirmed = true;
  return choice;
}

/// Runs a search's leaders by the exact executor until enough of them hold.
class Confirmation {
 public:
  Confirmation(const Setup& setup, const Space& space, const Executor& exact, const PlanOptions& options,
               Search& search)
      : setup_(setup), space_(space), exact_(exact), options_(options), search_(search) {}

  Findings run() {
    confirm({space_.current()});
    while (true) {
      const Findings findings = search_.run();
      std::vector<Point> next = candidates(findings);
      const bool spent = tried_.size() >= options_.most_tries;
      exhausted = next.empty() && !spent;
      if (next.empty()) return findings;
      confirm(next);
    }
  }

  std::vector<PlanChoice> fits, misses;
  bool exhausted = false;
  std::size_t tried() const { return tried_.size(); }

 private:
  /// The next to try: those that would rank among the best, else, while nothing fits, those that spare most.
  std::vector<Point> candidates(const Findings& findings) const {
    const std::size_t most = std::min(kAtOnce, options_.most_tries - tried_.size());
    std::vector<Point> next;
    std::vector<const Outcome*> seen;
    for (const Found& found : findings.feasible) {
      if (seen.size() == std::max(options_.top, kAlwaysConfirmed) || next.size() == most) break;
      if (missed_.contains(found.point)) continue;
      const bool known = std::any_of(seen.begin(), seen.end(),
                                     [&](const Outcome* other) { return alike(*other, found.quick); });
      if (known) continue;
      seen.push_back(&found.quick);
      if (!tried_.contains(found.point)) next.push_back(found.point);
    }
    if (!next.empty() || !fits.empty()) return next;
    return unlikely(findings, most);
  }

  /// Of those that the quick prediction lets fit: what is expected to spare most, and what spares most by the
  /// quick prediction, which leads away from what has been tried. Those that need no less in any phase than
  /// one that missed come last.
  std::vector<Point> unlikely(const Findings& findings, std::size_t most) const {
    struct Ranked {
      const Found* found;
      bool hopeless;
    };
    std::vector<Ranked> others;
    for (const Found& found : findings.nearest)
      if (found.quick.fits && !tried_.contains(found.point))
        others.push_back(
            {&found, std::any_of(missed_quick_.begin(), missed_quick_.end(),
                                 [&](const Outcome& miss) { return needs_no_less(found.quick, miss); })});
    const auto best = [&](Bytes (*spare)(const Found&)) {
      return std::max_element(others.begin(), others.end(), [&](const Ranked& a, const Ranked& b) {
        return a.hopeless != b.hopeless ? a.hopeless : spare(*a.found) < spare(*b.found);
      });
    };
    std::vector<Point> next;
    while (next.size() < most && !others.empty()) {
      const auto one = next.empty() ? best([](const Found& found) { return found.outcome.spare; })
                                    : best([](const Found& found) { return found.quick.spare; });
      next.push_back(one->found->point);
      others.erase(one);
    }
    return next;
  }

  void confirm(const std::vector<Point>& points) {
    std::vector<Result<PlanChoice>> choices(points.size(), PlanChoice{});
    parallel_for(points.size(), static_cast<unsigned>(points.size()),
                 [&](std::size_t i) { choices[i] = confirmed_choice(setup_, exact_, space_.choices(points[i])); });
    for (std::size_t i = 0; i < points.size(); ++i) {
      tried_.insert(points[i]);
      if (!choices[i]) {
        missed_.insert(points[i]);
        continue;
      }
      const Outcome& outcome = choices[i]->outcome;
      const Outcome quick = search_.learn(points[i], outcome);
      if (!outcome.fits) {
        missed_.insert(points[i]);
        if (quick.valid) missed_quick_.push_back(quick);
      }
      (outcome.fits ? fits : misses).push_back(std::move(*choices[i]));
    }
  }

  const Setup& setup_;
  const Space& space_;
  const Executor& exact_;
  const PlanOptions& options_;
  Search& search_;
  std::set<Point> tried_, missed_;
  std::vector<Outcome> missed_quick_;  ///< quick predictions of those that missed
};

void sort_and_cut(std::vector<PlanChoice>& choices, const PlanOptions& options) {
  std::stable_sort(choices.begin(), choices.end(), [&](const PlanChoice& a, const PlanChoice& b) {
    return better(a.outcome, b.outcome, options.search.objective);
  });
  const auto fewest = std::find_if(choices.begin(), choices.end(), [](const auto& c) { return c.fewest; });
  if (choices.size() <= options.top) return;
  if (fewest != choices.end() && fewest - choices.begin() >= static_cast<std::ptrdiff_t>(options.top))
    std::iter_swap(fewest, choices.begin() + static_cast<std::ptrdiff_t>(options.top) - 1);
  choices.resize(options.top);
}

void mark_pareto(std::vector<PlanChoice>& choices) {
  for (PlanChoice& choice : choices)
    choice.pareto = std::none_of(choices.begin(), choices.end(), [&](const PlanChoice& other) {
      const Outcome &a = other.outcome, &b = choice.outcome;
      const bool no_worse = a.seconds <= b.seconds && a.spare >= b.spare && a.peak_host <= b.peak_host;
      const bool differs = a.seconds != b.seconds || a.spare != b.spare || a.peak_host != b.peak_host;
      return no_worse && differs;
    });
}

/// What misses by least: as the exact executor found it where it ran, else as expected.
Status add_nearest(const Setup& setup, const Space& space, const Findings& findings,
                   const PlanOptions& options, std::vector<PlanChoice> misses, Plan& plan) {
  for (std::size_t i = 0; i < std::min(options.top, findings.nearest.size()); ++i) {
    PlanChoice choice;
    choice.choices = space.choices(findings.nearest[i].point);
    choice.outcome = findings.nearest[i].outcome;
    HEADROOM_ASSIGN(choice.settings, setup.framework->settings_of(*setup.read, choice.choices));
    const auto ran = std::find_if(misses.begin(), misses.end(),
                                  [&](const PlanChoice& miss) { return miss.choices == choice.choices; });
    plan.nearest.push_back(ran == misses.end() ? std::move(choice) : std::move(*ran));
  }
  sort_and_cut(plan.nearest, options);
  return {};
}

/// The exact executor, which runs no configuration twice.
class ExactRuns {
 public:
  ExactRuns(const Setup& setup, const Executor& executor) : setup_(setup), executor_(executor) {}

  const Result<Report>& operator()(const std::vector<Choice>& choices) {
    for (const auto& [known, report] : runs_)
      if (known == choices) return report;
    return runs_.emplace_back(choices, evaluate(setup_, choices, executor_)).second;
  }

  Outcome outcome(const std::vector<Choice>& choices) {
    const Result<Report>& report = (*this)(choices);
    if (report) return outcome_of(*report);
    Outcome refused;
    refused.refusal = report.error().text();
    return refused;
  }

  Result<PlanChoice> choice(std::vector<Choice> choices) {
    PlanChoice out;
    HEADROOM_ASSIGN(out.settings, setup_.framework->settings_of(*setup_.read, choices));
    HEADROOM_ASSIGN(out.report, (*this)(choices));
    out.choices = std::move(choices);
    out.outcome = outcome_of(*out.report);
    out.confirmed = true;
    return out;
  }

 private:
  const Setup& setup_;
  const Executor& executor_;
  std::deque<std::pair<std::vector<Choice>, Result<Report>>> runs_;
};

/// Decides the whole space by tables. The winner and, of it, the version with the fewest changes become choices.
Status prove(const Setup& setup, const Space& space, const Executors& executors, const PlanOptions& options,
             Plan& plan) {
  const Evaluator quick(setup, space, executors.quick);
  ExactRuns runs(setup, executors.exact);
  const Evaluate exact = [&](std::span<const Point> points) {
    std::vector<Outcome> out;
    for (const Point& point : points) out.push_back(runs.outcome(space.choices(point)));
    return out;
  };
  const std::vector<PhaseGroup> groups = phase_groups(setup.read->job, space);
  std::vector<Executor> own;
  for (const PhaseGroup& group : groups) own.push_back(until(options.stopped, executors.own(group.phases)));
  const auto evaluate_group = [&](std::size_t g, std::span<const Point> points) {
    return Evaluator(setup, space, own[g])(points);
  };
  GroupTables tables(space, groups, evaluate_group, setup.limits.host_budget);
  ProofOptions allowed = options.proof;
  allowed.stopped = options.stopped;
  Prover prover(space, tables, std::cref(quick), exact, allowed);
  plan.proof = prover.run();
  if (!plan.proof->winning) return {};
  const Found& winner = *plan.proof->winning;
  FewestOptions fewer;
  if (options.least_changes) fewer = {.tolerance = kAnySlower, .most_exact_runs = kMostTakenBack};
  const std::optional<Found> fewest = fewest_changes(space, std::cref(quick), exact, winner, fewer);
  if (fewest) {
    HEADROOM_ASSIGN(PlanChoice choice, runs.choice(space.choices(fewest->point)));
    choice.fewest = true;
    plan.choices.push_back(std::move(choice));
  }
  if (!fewest || !alike(fewest->outcome, winner.outcome)) {
    HEADROOM_ASSIGN(PlanChoice choice, runs.choice(space.choices(winner.point)));
    choice.fewest = !fewest;
    plan.choices.push_back(std::move(choice));
  }
  return {};
}

/// Looks for leaders and confirms them.
Status climb(const Setup& setup, const Space& space, const Executors& executors, const PlanOptions& options,
             Plan& plan) {
  const Evaluator quick(setup, space, executors.quick);
  Search search(space, std::cref(quick), options.search);
  Confirmation confirmation(setup, space, executors.exact, options, search);
  const Findings findings = confirmation.run();
  plan.evaluated = findings.evaluated;
  plan.pruned = findings.pruned;
  plan.feasible = static_cast<std::int64_t>(findings.feasible.size());
  plan.tried = static_cast<std::int64_t>(confirmation.tried());
  plan.exhausted = confirmation.exhausted;
  if (findings.evaluated == 0) {
    HEADROOM_ASSIGN(const Report report, evaluate(setup, space.choices(space.current()), executors.quick));
    return fail("no configuration of the space can run");
  }
  plan.confirmed = static_cast<std::int64_t>(confirmation.fits.size());
  for (PlanChoice& choice : confirmation.fits) {
    const auto same = [&](const PlanChoice& other) { return alike(other.outcome, choice.outcome); };
    if (std::none_of(plan.choices.begin(), plan.choices.end(), same)) plan.choices.push_back(std::move(choice));
  }
  sort_and_cut(plan.choices, options);
  if (plan.choices.empty()) return add_nearest(setup, space, findings, options, std::move(confirmation.misses), plan);
  return {};
}

/// One or two changes with which the run fits, as the only choice.
Status change_least(const Setup& setup, const Space& space, const Executors& executors, const PlanOptions& options,
                    Plan& plan) {
  std::optional<std::vector<Choice>> least = least_changes(setup, space, until(options.stopped, executors.quick),
                                                           until(options.stopped, executors.exact));
  if (!least) return {};
  HEADROOM_ASSIGN(PlanChoice choice, confirmed_choice(setup, executors.exact, std::move(*least)));
  choice.fewest = true;
  plan.choices.push_back(std::move(choice));
  return {};
}

Outcome quick_outcome(const Setup& setup, std::span<const Choice> choices, const Executor& quick) {
  Outcome refused;
  const Result<Report> report = evaluate(setup, choices, quick);
  if (report) return outcome_of(*report);
  refused.refusal = report.error().text();
  return refused;
}

/// What each change of `choice` does, taken back alone.
std::vector<PlanPart> parts_of(const Setup& setup, const Space& space, const Executor& quick, const PlanChoice& choice) {
  const Outcome whole = quick_outcome(setup, choice.choices, quick);
  const std::size_t first = space.fixed.size();
  std::vector<PlanPart> out(choice.choices.size() - std::min(first, choice.choices.size()));
  parallel_for(out.size(), 0, [&](std::size_t k) {
    const std::size_t i = first + k;
    std::vector<Choice> others = choice.choices;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    Change change{{choice.choices[i]}, {}, whole};
    if (Result<std::vector<Setting>> settings = setup.framework->settings_of(*setup.read, change.choices))
      change.settings = std::move(*settings);
    PlanPart& part = out[k];
    part.without = quick_outcome(setup, others, quick);
    std::string what;
    for (const Dimension& dimension : space.dimensions)
      if (dimension.knob.name == choice.choices[i].knob) what = dimension.knob.summary;
    part.technique = technique_of(choice.choices[i].knob, std::move(what), std::move(change), part.without);
  });
  return out;
}

}  // namespace

namespace {

/// The rest of a search whose proof was stopped; of any other, one that ends when it is.
Status climb_until_stopped(const Setup& setup, const Space& space, const Executors& executors,
                           const PlanOptions& options, Plan& plan) {
  const bool already = options.stopped && options.stopped();
  if (!already) {
    Executors some = executors;
    some.quick = until(options.stopped, executors.quick);
    some.exact = until(options.stopped, executors.exact);
    return climb(setup, space, some, options, plan);
  }
  plan.proof.reset();
  PlanOptions few = options;
  few.search.most_evaluations = std::min(few.search.most_evaluations, kStoppedEvaluations);
  few.search.more_evaluations = 0;
  few.most_tries = std::min(few.most_tries, kStoppedTries);
  return climb(setup, space, executors, few, plan);
}

}  // namespace

Result<Plan> make_plan(const Setup& setup, const Space& space, const Executors& executors,
                       const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan;
  plan.space = space.size();
  if (options.least_changes) HEADROOM_TRY(change_least(setup, space, executors, options, plan));
  if (plan.choices.empty() && options.prove && executors.own && options.search.objective == Objective::time)
    HEADROOM_TRY(prove(setup, space, executors, options, plan));
  const bool decided = !plan.choices.empty() || (plan.proof && plan.proof->winning);
  if (!decided) HEADROOM_TRY(climb_until_stopped(setup, space, executors, options, plan));
  plan.stopped = options.stopped && options.stopped();
  // The tables know less of this run than its own runs do.
  if (!decided && plan.proof && plan.proof->complete() && !plan.choices.empty()) plan.proof.reset();
  if (const Result<Report> now = evaluate(setup, {}, executors.exact)) plan.now = outcome_of(*now);
  mark_pareto(plan.choices);
  if (!plan.choices.empty() && !plan.stopped)
    plan.choices.front().parts = parts_of(setup, space, executors.quick, plan.choices.front());
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace headroom::search

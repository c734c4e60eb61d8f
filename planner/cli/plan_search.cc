#include "planner/cli/plan_search.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/expected_lengths.h"
#include "planner/cli/interrupt.h"
#include "planner/cli/knob_names.h"
#include "planner/cli/plan_forms.h"
#include "planner/cli/prediction.h"
#include "planner/cli/would_fit.h"
#include "simulator/closed_form/recalled_trainer.h"

namespace headroom::cli {
namespace {

constexpr std::int64_t kMostChoices = 100;
constexpr const char *kFewestGpus = "gpus", *kFewestChanges = "changes";  // --objective
constexpr const char* kAlgorithm = "--allow-algorithm-changes";
// Configurations whose programs are run one by one, some tens of milliseconds each.
constexpr std::size_t kSlowEvaluations = 200, kMoreSlowEvaluations = 20;

Result<search::PlanOptions> plan_options(const Arguments& arguments) {
  search::PlanOptions options;
  const std::string objective = arguments.text("--objective", "time");
  if (objective == "memory") options.search.objective = search::Objective::memory;
  options.least_changes = objective == kFewestChanges;
  if (objective != "memory" && objective != "time" && objective != kFewestGpus && objective != kFewestChanges)
    return fail(Error{.message = fmt::format("expected time, memory, gpus or changes, found '{}'", objective),
                      .file = {},
                      .key = "--objective"});
  HEADROOM_ASSIGN(const std::optional<std::int64_t> top, arguments.integer("--top", 1, kMostChoices));
  options.top = static_cast<std::size_t>(top.value_or(5));
  return options;
}

Result<Searched> search_run(const Arguments& arguments, const Common& common, Streams& streams,
                            search::Executors executors) {
  Searched out;
  HEADROOM_ASSIGN(out.run, load_run(arguments.text("CONFIG"), common, streams));
  if (out.run.framework == nullptr || out.run.framework->knobs == nullptr)
    return fail(Error{.message = no_knobs(out.run), .file = arguments.text("CONFIG"), .key = {}});
  HEADROOM_TRY(expect_forms(arguments, out.run));
  HEADROOM_ASSIGN(search::PlanOptions options, plan_options(arguments));
  options.stopped = &Interrupt::came;
  const Executor exact = executors.exact;
  const Lengths lengths = out.run.read.job.lengths;
  for (Executor* one : {&executors.quick, &executors.exact}) *one = at_lengths(*one, lengths);
  if (executors.own)
    executors.own = [own = executors.own, lengths](std::span<const std::string> phases) {
      return at_lengths(own(phases), lengths);
    };
  if (!closed_form::recalls(out.run.read.job)) {
    options.search.most_evaluations = kSlowEvaluations;
    options.search.more_evaluations = kMoreSlowEvaluations;
    executors.own = {};  // a program each: no tables
  }
  const std::vector<Knob> knobs = out.run.framework->knobs(out.run.read);
  const std::vector<std::string> vary = knob_requests(out.run, knobs, arguments.all("--vary")),
                                 fix = knob_requests(out.run, knobs, arguments.all("--fix"));
  HEADROOM_ASSIGN(const search::Space space, search::make_space(knobs, vary, fix, arguments.has(kAlgorithm)));
  Result<search::Plan> plan = search::make_plan(out.run.setup(), space, executors, options);
  if (!plan || plan->choices.empty()) {
    HEADROOM_ASSIGN(out.input, predict(out.run, exact));
  }
  HEADROOM_ASSIGN(out.plan, std::move(plan));
  if (out.plan.choices.empty()) {
    const std::vector<search::PlanChoice>& nearest = out.plan.nearest;
    out.plan.would = would_fit(out.run, common, executors.quick, executors.exact,
                               nearest.empty() ? std::span<const Choice>() : nearest.front().choices);
  }
  const auto add_other = [&](search::Outcome& outcome) {
    if (outcome.seconds > 0) outcome.seconds += out.run.other_seconds;
  };
  add_other(out.plan.now);
  for (search::PlanChoice& choice : out.plan.choices) add_other(choice.outcome);
  for (search::PlanChoice& choice : out.plan.choices)
    if (choice.report) {
      describe(*choice.report, out.run);
      leave_undetermined(*choice.report, out.run.read.job.not_modelled);
    }
  return out;
}

/// GPU counts to try, fewest first: parts of one node, then whole nodes.
std::vector<std::pair<std::int64_t, std::int64_t>> smaller_clusters(const Job& job) {
  const Pool& pool = job.pools.front();
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (std::int64_t gpus = 1; gpus < pool.gpus_per_node; ++gpus)
    if (pool.gpus_per_node % gpus == 0) out.emplace_back(1, gpus);
  for (std::int64_t nodes = 1; nodes <= pool.nodes; ++nodes) out.emplace_back(nodes, pool.gpus_per_node);
  return out;
}

/// The plan on the fewest GPUs on which anything fits. Sizes that the framework refuses are passed over.
Result<Searched> search_fewest(const Arguments& arguments, const Common& given, Streams& streams,
                               const search::Executors& executors) {
  HEADROOM_ASSIGN(const Run whole, load_run(arguments.text("CONFIG"), given, streams));
  Result<Searched> last = fail("no size of the cluster was tried");
  for (const auto& [nodes, gpus] : smaller_clusters(whole.read.job)) {
    Common common = given;
    common.nodes = nodes;
    common.gpus_per_node = gpus;
    last = search_run(arguments, common, streams, executors);
    if (last && !last->plan.choices.empty()) break;
  }
  return last;
}

Result<Searched> search_one(const Arguments& arguments, const Common& common, Streams& streams,
                            const search::Executors& executors) {
  return wants_fewest_gpus(arguments) ? search_fewest(arguments, common, streams, executors)
                                      : search_run(arguments, common, streams, executors);
}

/// `--gpu A,B`: the cards' names; one without a comma.
std::vector<std::string> cards_of(const Common& common) {
  std::vector<std::string> out;
  const std::string all = common.gpu.value_or("");
  for (std::size_t start = 0; start <= all.size();) {
    const std::size_t end = std::min(all.find(',', start), all.size());
    out.push_back(all.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

/// A plan for each card: the fastest that fits leads. What a card can't do is said beside the others. Errors: no card
/// can be planned for (the last's is given).
Result<Searched> search_cards(const Arguments& arguments, Streams& streams, const search::Executors& executors,
                              const std::vector<std::string>& names) {
  Result<Searched> best = fail("no card was tried");
  std::vector<writers::CardPlan> cards;
  for (const std::string& name : names) {
    Common common = arguments.common;
    common.gpu = name;
    Result<Searched> one = search_one(arguments, common, streams, executors);
    writers::CardPlan& card = cards.emplace_back();
    card.gpu = name;
    if (!one) {
      card.refusal = one.error().text();
      if (!best) best = std::move(one);
      continue;
    }
    if (!one->plan.choices.empty()) {
      const search::PlanChoice& first = one->plan.choices.front();
      card.fits = true;
      card.outcome = first.outcome;
      card.settings = first.settings;
      card.choices = first.choices;
    }
    const bool leads = !best || (card.fits && (best->plan.choices.empty() ||
                                               search::better(card.outcome, best->plan.choices.front().outcome,
                                                              search::Objective::time)));
    if (leads) best = std::move(one);
  }
  if (best) best->cards = std::move(cards);
  return best;
}

}  // namespace

bool wants_fewest_gpus(const Arguments& arguments) {
  return arguments.has("--min-gpus") || arguments.text("--objective") == kFewestGpus;
}

Result<Searched> search_plan(const Arguments& arguments, Streams& streams, const search::Executors& executors) {
  const std::vector<std::string> names = cards_of(arguments.common);
  return names.size() > 1 ? search_cards(arguments, streams, executors, names)
                          : search_one(arguments, arguments.common, streams, executors);
}

}  // namespace headroom::cli

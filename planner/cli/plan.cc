#include "planner/cli/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <set>

#include "planner/cli/executors.h"
#include "planner/cli/expected_lengths.h"
#include "planner/cli/interrupt.h"
#include "planner/cli/knob_names.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/cli/progress.h"
#include "planner/cli/would_fit.h"
#include "planner/cli/run.h"
#include "planner/search/plan.h"
#include "planner/writers/html/html.h"
#include "planner/writers/plan.h"
#include "planner/writers/table.h"
#include "simulator/closed_form/recalled_trainer.h"

namespace headroom::cli {
namespace {

constexpr std::int64_t kMostChoices = 100;
constexpr const char* kFewestGpus = "gpus";  // --objective
// Configurations whose programs are run one by one, some tens of milliseconds each.
constexpr std::size_t kSlowEvaluations = 200, kMoreSlowEvaluations = 20;

struct Searched {
  Run run;
  search::Plan plan;
  Report input;  ///< the run as given, when nothing fits
};

Result<search::PlanOptions> plan_options(const Arguments& arguments) {
  search::PlanOptions options;
  const std::string objective = arguments.text("--objective", "time");
  if (objective == "memory") options.search.objective = search::Objective::memory;
  if (objective != "memory" && objective != "time" && objective != kFewestGpus)
    return fail(Error{.message = fmt::format("expected time, memory or gpus, found '{}'", objective),
                      .file = {},
                      .key = "--objective"});
  HEADROOM_ASSIGN(const std::optional<std::int64_t> top, arguments.integer("--top", 1, kMostChoices));
  options.top = static_cast<std::size_t>(top.value_or(5));
  return options;
}

/// The forms in which the winner is written.
struct Form {
  const char* flag;
  Result<std::string> (*Framework::*write)(const ReadJob&, std::span<const Setting>, const WriteHeader&);
};
constexpr std::array<Form, 3> kForms = {{{"--yaml", &Framework::write},
                                         {"--script", &Framework::write_script},
                                         {"--overrides", &Framework::write_overrides}}};

/// Of the forms asked for, those that this run has not: told before the search.
Status expect_forms(const Arguments& arguments, const Run& run) {
  const auto& files = run.read.input.files;
  const bool launched =
      std::any_of(files.begin(), files.end(), [](const JobInput::File& file) { return file.launch != nullptr; });
  for (const Form& form : kForms) {
    if (!arguments.find(form.flag)) continue;
    if (run.framework->*form.write == nullptr)
      return fail(Error{.message = fmt::format("runs of {} can't be written in this form", run.framework->name),
                        .file = {},
                        .key = form.flag});
    if (form.write == &Framework::write_script && !launched)
      return fail(Error{.message = "expected a launch script or a command as CONFIG, found a configuration; --yaml writes that",
                        .file = {},
                        .key = form.flag});
  }
  return {};
}

search::Executors counted(search::Executors executors, ProgressLine& line) {
  executors.quick = cli::counted(std::move(executors.quick), line);
  executors.exact = cli::counted(std::move(executors.exact), line);
  if (executors.own)
    executors.own = [own = std::move(executors.own), &line](std::span<const std::string> phases) {
      return cli::counted(own(phases), line);
    };
  return executors;
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
  HEADROOM_ASSIGN(const search::Space space, search::make_space(knobs, vary, fix));
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
Result<Searched> search_fewest(const Arguments& arguments, Streams& streams, const search::Executors& executors) {
  HEADROOM_ASSIGN(const Run whole, load_run(arguments.text("CONFIG"), arguments.common, streams));
  Result<Searched> last = fail("no size of the cluster was tried");
  for (const auto& [nodes, gpus] : smaller_clusters(whole.read.job)) {
    Common common = arguments.common;
    common.nodes = nodes;
    common.gpus_per_node = gpus;
    last = search_run(arguments, common, streams, executors);
    if (last && !last->plan.choices.empty()) break;
  }
  return last;
}

/// Of all that would be written, what can't be: told before the search.
Status expect_places(const Arguments& arguments) {
  const Common& common = arguments.common;
  for (const Form& form : kForms)
    if (const std::optional<std::string> path = arguments.find(form.flag)) HEADROOM_TRY(expect_writable(*path));
  for (const std::optional<std::string>* path : {&common.json, &common.html, &common.csv, &common.markdown})
    if (*path) HEADROOM_TRY(expect_writable(**path));
  return {};
}

WriteHeader header(const search::PlanChoice& winner, const Run& run) {
  const search::Outcome& outcome = winner.outcome;
  WriteHeader header;
  header.lines.push_back(fmt::format("Version {}, for {}, {} a GPU.", kVersion, run.hardware.name,
                                     format_gib(outcome.budget)));
  const Bytes margin = outcome.budget - outcome.peak_device - outcome.spare;
  header.lines.push_back(fmt::format("Predicted peak {} in {}, margin {}, {} to spare; {:.1f} s a step.",
                                     format_gib(outcome.peak_device), outcome.limiting_phase,
                                     format_gib(margin), format_gib(outcome.spare), outcome.seconds));
  const std::string changes = writers::settings_text(winner.settings, winner.choices);
  for (const std::string& missing : run.read.job.not_modelled)
    header.lines.push_back("Not modelled, so nobody knows whether it fits: " + missing);
  header.lines.push_back("Changed: " + (changes.empty() ? "nothing" : changes));
  return header;
}

Status write_winner(const Arguments& arguments, const Searched& searched, Streams& streams) {
  const search::PlanChoice& winner = searched.plan.choices.front();
  const Framework& framework = *searched.run.framework;
  for (const Form& form : kForms) {
    const std::optional<std::string> path = arguments.find(form.flag);
    if (!path) continue;
    const auto write = framework.*form.write;
    Result<std::string> text = write(searched.run.read, winner.settings, header(winner, searched.run));
    if (!text && text.error().key.empty() && text.error().file.empty()) text.error().key = form.flag;
    if (!text) return fail(std::move(text.error()));
    HEADROOM_TRY(write_output(*path, *text, streams));
  }
  return {};
}

}  // namespace

Command plan_command() {
  return {
      "plan",
      "searches for the fastest configuration that fits and writes it back",
      {{"CONFIG", "", "configuration of a framework, or a job file; '-' is standard input", true},
       output_file("--yaml", "write the best choice in the framework's own schema"),
       output_file("--script", "write the launch script with the best choice's words changed, all else kept"),
       output_file("--overrides", "write the best choice's words alone, one a line"),
       {"--vary", "KNOB[=V,V]",
        "vary only these knobs, by name or by the framework's key (default: all that keep the training's "
        "numbers)",
        false, true},
       {"--fix", "KNOB[=V]", "keep a knob, or set it", false, true},
       {"--objective", "time|memory|gpus",
        "the fastest step, the most memory to spare, or the fastest step on the fewest GPUs (default: time)"},
       {"--top", "N", "choices to show (default: 5)"},
       {"--min-gpus", "", "find the fewest GPUs on which it fits"}},
      kJobFlags | kHardwareFlags | kBudgetFlags | kJsonFlag | kReportFlags,
      [](const Arguments& arguments, Streams& streams) { return plan(arguments, streams); }};
}

int plan(const Arguments& arguments, Streams& streams) {
  return plan(arguments, streams, planning_executors());
}

int plan(const Arguments& arguments, Streams& streams, const search::Executors& executors) {
  const Common& common = arguments.common;
  const bool to_output = std::any_of(kForms.begin(), kForms.end(),
                                     [&](const Form& form) { return arguments.find(form.flag) == "-"; });
  if (const Status places = expect_places(arguments); !places) return report_error(places.error(), streams);
  const bool fewest_gpus = arguments.has("--min-gpus") || arguments.text("--objective") == kFewestGpus;
  const Interrupt interrupt;
  std::optional<ProgressLine> line(std::in_place, streams, common.quiet);
  const search::Executors telling = counted(executors, *line);
  Result<Searched> searched =
      fewest_gpus ? search_fewest(arguments, streams, telling) : search_run(arguments, common, streams, telling);
  line.reset();
  if (!searched && Interrupt::came()) {
    streams.err << "headroom: stopped before anything was found that fits\n";
    return kIncomplete;
  }
  if (!searched) return report_error(searched.error(), streams);
  const search::Plan& found = searched->plan;
  Written written;
  if (!found.choices.empty()) written.add(write_winner(arguments, *searched, streams));
  Common others = common;
  others.json.reset();
  if (common.json)
    written.add(write_output(*common.json, writers::plan_json(found, searched->input), streams));
  const Report& shown = found.choices.empty() ? searched->input : *found.choices[0].report;
  if (common.html)
    written.add(write_output(*common.html, writers::html_page(writers::plan_json(found, searched->input)), streams));
  others.html.reset();
  written.add(write_reports(std::span(&shown, 1), others, streams));
  const bool prints = !takes_standard_output(common) && !to_output;
  if (prints && common.quiet) streams.out << writers::plan_verdict(found) << "\n";
  if (prints && !common.quiet) {
    if (fewest_gpus) {
      const Pool& pool = searched->run.read.job.pools.front();
      streams.out << fmt::format("Fewest GPUs: {} ({} × {})\n", pool.gpus(), pool.nodes, pool.gpus_per_node);
    }
    streams.out << writers::plan_table(
        found, found.choices.empty() ? searched->run.limits.budget : found.choices[0].outcome.budget);
    for (const std::string& missing : searched->run.read.job.not_modelled)
      streams.out << "! not modelled, so nobody knows whether a choice fits: " << missing << "\n";
  }
  const bool known = searched->run.read.job.not_modelled.empty();
  return written.finish(found.choices.empty() ? kOver : known ? kDone : kUndetermined, streams);
}

}  // namespace headroom::cli

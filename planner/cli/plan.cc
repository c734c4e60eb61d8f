#include "planner/cli/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "planner/cli/executors.h"
#include "planner/cli/interrupt.h"
#include "planner/cli/output.h"
#include "planner/cli/plan_forms.h"
#include "planner/cli/plan_search.h"
#include "planner/cli/progress.h"
#include "planner/cli/run.h"
#include "planner/writers/html/html.h"
#include "planner/writers/table.h"

namespace headroom::cli {
namespace {

search::Executors counted(search::Executors executors, ProgressLine& line) {
  executors.quick = cli::counted(std::move(executors.quick), line);
  executors.exact = cli::counted(std::move(executors.exact), line);
  if (executors.own)
    executors.own = [own = std::move(executors.own), &line](std::span<const std::string> phases) {
      return cli::counted(own(phases), line);
    };
  return executors;
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
       {"--allow-algorithm-changes", "",
        "vary also what changes the numbers that are trained: types of weights and cache, adapters, penalties"},
       {"--objective", "time|memory|gpus|changes",
        "the fastest step, the most memory to spare, the fastest step on the fewest GPUs, or the fewest changes with "
        "which it fits (default: time)"},
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
  const Interrupt interrupt;
  std::optional<ProgressLine> line(std::in_place, streams, common.quiet);
  Result<Searched> searched = search_plan(arguments, streams, counted(executors, *line));
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
    written.add(write_output(*common.json, writers::plan_json(found, searched->input, searched->cards), streams));
  const Report& shown = found.choices.empty() ? searched->input : *found.choices[0].report;
  if (common.html)
    written.add(write_output(*common.html, writers::html_page(writers::plan_json(found, searched->input, searched->cards)), streams));
  others.html.reset();
  written.add(write_reports(std::span(&shown, 1), others, streams));
  const bool prints = !takes_standard_output(common) && !to_output;
  if (prints && common.quiet) streams.out << writers::plan_verdict(found) << "\n";
  if (prints && !common.quiet) {
    if (!searched->cards.empty())
      streams.out << writers::card_table(searched->cards) << "\nOn " << searched->run.hardware.name << ":\n";
    if (wants_fewest_gpus(arguments)) {
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

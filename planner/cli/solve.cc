#include "planner/cli/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <utility>

#include "models/base/nearest.h"
#include "planner/cli/executors.h"
#include "planner/cli/knob_names.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/search/solve.h"
#include "planner/writers/solution.h"
#include "planner/writers/table.h"

namespace headroom::cli {
namespace {

Result<Knob> find_knob(const Run& run, const std::string& text) {
  if (run.framework == nullptr || run.framework->knobs == nullptr)
    return fail(Error{.message = no_knobs(run), .file = run.read.input.files.back().path, .key = {}});
  const std::vector<Knob> knobs = run.framework->knobs(run.read);
  const std::string name = knob_name(run, knobs, text);
  std::string known;
  std::vector<std::string_view> names;
  for (const Knob& knob : knobs) {
    if (knob.name == name) return knob;
    names.push_back(knob.name);
    known += (known.empty() ? "" : ", ") + knob.name;
  }
  const std::string near = nearest(name, names);
  return fail(
      Error{.message = fmt::format("unknown knob{}; this run has: {}",
                                   near.empty() ? "" : fmt::format(", did you mean '{}'?", near), known),
            .file = {},
            .key = name});
}

std::string beyond_text(const search::Solution& solution) {
  if (!solution.beyond) return "";
  const search::Tried& beyond = *solution.beyond;
  if (beyond.outcome.spare >= 0) return fmt::format(" ({} does not fit)", beyond.value);
  return fmt::format(" ({} does not fit: {} short in {})", beyond.value, format_gib(-beyond.outcome.spare),
                     beyond.outcome.limiting_phase);
}

}  // namespace

Command solve_command() {
  return {"solve",
          "finds the largest value of one knob that fits",
          {{"KNOB", "", "its name, or the key of the framework that `headroom plan` shows", true},
           {"CONFIG", "", "configuration of a framework, or a job file; '-' is standard input", true},
           {"--smallest", "", "the smallest value that fits instead"}},
          kJobFlags | kHardwareFlags | kBudgetFlags | kJsonFlag | kReportFlags,
          [](const Arguments& arguments, Streams& streams) { return solve(arguments, streams); }};
}

int solve(const Arguments& arguments, Streams& streams) {
  return solve(arguments, streams, searching_executor(), simulating_executor());
}

int solve(const Arguments& arguments, Streams& streams, const Executor& quick, const Executor& executor) {
  const Common& common = arguments.common;
  HEADROOM_CLI_ASSIGN(const Run run, load_run(arguments.text("CONFIG"), common, streams), streams);
  HEADROOM_CLI_ASSIGN(const Knob knob, find_knob(run, arguments.text("KNOB")), streams);
  const search::Setup setup = run.setup();
  const auto trying = [&](const Executor& with) {
    return [&](const std::string& value) {
      const Result<Report> report = search::evaluate(setup, std::array{Choice{knob.name, value}}, with);
      search::Outcome outcome;
      if (report) return search::outcome_of(*report);
      outcome.refusal = report.error().text();
      return outcome;
    };
  };
  const Result<search::Solution> solution =
      search::solve(knob.name, knob.values, arguments.has("--smallest"), trying(quick), trying(executor));
  if (!solution) {
    streams.err << "headroom: " << solution.error().text() << "\n";
    return kOver;
  }
  const std::vector<Choice> choices = {{knob.name, solution->fits.value}};
  HEADROOM_CLI_ASSIGN(Report report, search::evaluate(setup, choices, executor), streams);
  leave_undetermined(report, run.read.job.not_modelled);
  Written written;
  describe(report, run);
  Common others = common;
  if (others.json)
    written.add(write_output(*std::exchange(others.json, {}),
                             writers::solution_json(report, knob.name, *solution), streams));
  written.add(write_reports(std::span(&report, 1), others, streams));
  if (!takes_standard_output(common)) {
    streams.out << fmt::format("{} = {}{}\n", knob.name, solution->fits.value, beyond_text(*solution));
    if (!common.quiet) streams.out << writers::verdict(report) << "\n";
  }
  return written.finish(verdict_code(report), streams);
}

}  // namespace headroom::cli

#include "planner/cli/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <utility>

#include "models/base/nearest.h"
#include "planner/cli/executors.h"
#include "planner/cli/expected_lengths.h"
#include "planner/cli/knob_names.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/cli/progress.h"
#include "planner/search/solve.h"
#include "planner/search/solve_number.h"
#include "planner/writers/solution.h"
#include "planner/writers/table.h"

namespace headroom::cli {
namespace {

/// What is solved for: a knob, whose values are known, or a number of the run.
struct Sought {
  std::string name;
  std::optional<Knob> knob;
  std::optional<Size> size;
};

Result<Sought> find_sought(const Run& run, const std::string& text) {
  const Framework& framework = *run.framework;
  std::vector<Knob> knobs;
  if (framework.knobs != nullptr) knobs = framework.knobs(run.read);
  const auto knob_named = [&](const std::string& name) {
    return std::find_if(knobs.begin(), knobs.end(), [&](const Knob& knob) { return knob.name == name; });
  };
  if (const auto knob = knob_named(text); knob != knobs.end()) return Sought{text, *knob, {}};
  std::vector<std::string> names = size_names(run.read, framework.sizes);
  const bool by_name = std::find(names.begin(), names.end(), text) != names.end();
  if (!by_name)
    if (const auto knob = knob_named(knob_name(run, knobs, text)); knob != knobs.end())
      return Sought{knob->name, *knob, {}};
  if (auto size = find_size(run.read, framework.sizes, text)) return Sought{size->name, {}, std::move(size)};
  for (const Knob& knob : knobs) names.push_back(knob.name);
  const std::string near = nearest(text, std::vector<std::string_view>(names.begin(), names.end()));
  return fail(Error{.message = fmt::format("unknown knob{}; this run has: {}",
                                           near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                                           fmt::join(names, ", ")),
                    .file = {},
                    .key = text});
}

/// The run with `value` for what is sought.
Result<Job> with_value(const Run& run, const Sought& sought, const std::string& value) {
  if (sought.knob) {
    HEADROOM_ASSIGN(Job job, run.framework->with(run.read, std::array{Choice{sought.name, value}}));
    HEADROOM_TRY(validate_job(job));
    return job;
  }
  HEADROOM_ASSIGN(ReadJob read, with_size(run, *sought.size, value));
  return std::move(read.job);
}

/// The whole run with it, for its report.
Result<Run> with_chosen(const Run& run, const Sought& sought, const std::string& value) {
  Run out = run;
  out.alternatives.clear();
  HEADROOM_ASSIGN(out.read.job, with_value(run, sought, value));
  out.read.job.lengths = run.read.job.lengths;
  return out;
}

Result<Report> report_of(const Run& run, const Job& job, const Executor& executor) {
  HEADROOM_ASSIGN(Report report, executor(job, run.hardware));
  judge(report, run.limits);
  return report;
}

Result<search::Solution> solve_for(const Run& run, const Sought& sought, bool smallest, const Executor& quick,
                                   const Executor& exact) {
  const auto refusal = [&](const std::string& value) {
    const Result<Job> job = with_value(run, sought, value);
    return job ? std::string() : job.error().text();
  };
  const auto trying = [&](const Executor& executor) -> search::TryValue {
    return [&](const std::string& value) {
      search::Outcome outcome;
      const Result<Job> job = with_value(run, sought, value);
      const Result<Report> report = job ? report_of(run, *job, executor) : fail(job.error());
      if (report) return search::outcome_of(*report);
      outcome.refusal = report.error().text();
      return outcome;
    };
  };
  if (sought.knob) return search::solve(sought.name, sought.knob->values, smallest, trying(quick), trying(exact));
  return search::solve_number(sought.name, {sought.size->current, smallest || sought.size->fewest()},
                              {refusal, trying(quick), trying(exact)});
}

std::string beyond_text(const search::Solution& solution) {
  if (!solution.beyond) return "";
  const auto& [value, outcome] = *solution.beyond;
  if (!outcome.valid) return fmt::format(" ({} is refused: {})", value, outcome.refusal);
  if (outcome.spare >= 0) return fmt::format(" ({} does not fit)", value);
  return fmt::format(" ({} does not fit: {} short in {})", value, format_gib(-outcome.spare), outcome.limiting_phase);
}

/// What stands in the way where no value fits.
std::string blocked_text(const search::Tried& closest) {
  return fmt::format("no value of it fits; {} misses by {} in {}: that phase blocks, whatever this is set to",
                     closest.value, format_gib(-closest.outcome.spare), closest.outcome.limiting_phase);
}

}  // namespace

Command solve_command() {
  return {"solve",
          "finds the largest value of one number that fits; of nodes and GPUs the smallest",
          {{"KNOB", "", "prompt_length, batch, nodes …, a knob that `headroom plan` turns, or a key of the framework", true},
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
  if (run.framework == nullptr) return report_error(Error{.message = no_knobs(run), .file = {}, .key = {}}, streams);
  HEADROOM_CLI_ASSIGN(const Sought sought, find_sought(run, arguments.text("KNOB")), streams);
  const Lengths& lengths = run.read.job.lengths;
  std::optional<ProgressLine> line(std::in_place, streams, common.quiet);
  const Result<search::Solution> solution =
      solve_for(run, sought, arguments.has("--smallest"), at_lengths(counted(quick, *line), lengths),
                at_lengths(counted(executor, *line), lengths));
  line.reset();
  if (!solution) return report_error(solution.error(), streams);
  const search::Tried& shown = solution->fits ? *solution->fits : *solution->beyond;
  HEADROOM_CLI_ASSIGN(Run chosen, with_chosen(run, sought, shown.value), streams);
  HEADROOM_CLI_ASSIGN(const Report report, predict(chosen, executor), streams);
  Written written;
  Common others = common;
  if (others.json)
    written.add(write_output(*std::exchange(others.json, {}),
                             writers::solution_json(report, sought.name, *solution), streams));
  written.add(write_reports(std::span(&report, 1), others, streams));
  if (!takes_standard_output(common)) {
    streams.out << (solution->fits ? fmt::format("{} = {}{}\n", sought.name, solution->fits->value, beyond_text(*solution))
                                   : fmt::format("{}: {}\n", sought.name, blocked_text(shown)));
    if (solution->fits && !common.quiet) streams.out << writers::verdict(report) << "\n";
  } else if (!solution->fits) {
    streams.err << "headroom: " << sought.name << ": " << blocked_text(shown) << "\n";
  }
  return written.finish(solution->fits ? verdict_code(report) : kOver, streams);
}

}  // namespace headroom::cli

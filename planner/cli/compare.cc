#include "planner/cli/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "planner/cli/executors.h"
#include "planner/cli/lengths.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/compare/comparison.h"
#include "planner/compare/corpus.h"
#include "planner/compare/log_comparison.h"
#include "planner/compare/side.h"
#include "planner/compare/timing.h"
#include "planner/frameworks/input.h"
#include "planner/writers/csv.h"
#include "planner/writers/html/html.h"

namespace headroom::cli {
namespace {

/// Predicted and measured as two runs on one axis: PyTorch's reserved memory, of which allocated.
std::string page(const std::vector<compare::Row>& rows, const compare::Sides& sides) {
  std::vector<Report> reports(2);
  reports[0].title = sides.first;
  reports[1].title = sides.second;
  const auto add = [](Report& report, const compare::MeasuredPhase& at, Bytes allocated, Bytes reserved) {
    PhaseReport phase;
    phase.step = at.step;
    phase.phase = at.phase;
    phase.peak_device = std::max(allocated, reserved);
    phase.at_peak_device[Component::other] = allocated;
    phase.at_peak_device[Component::allocator_slack] = phase.peak_device - allocated;
    report.budget = std::max(report.budget, phase.peak_device);
    report.devices.front().phases.push_back(std::move(phase));
  };
  for (Report& report : reports) report.devices.resize(1);
  for (const compare::Row& row : rows) {
    if (row.predicted) add(reports[0], row.measured, row.peak_allocated, row.peak_reserved);
    add(reports[1], row.measured, row.measured.peak_allocated, row.measured.peak_reserved);
  }
  return writers::html(reports);
}

std::string csv(const std::vector<compare::Row>& rows) {
  std::string out =
      "run,step,phase,measured_allocated,predicted_allocated,measured_reserved,predicted_reserved\n";
  for (const compare::Row& row : rows)
    out += fmt::format("{},{},{},{},{},{},{}\n", writers::csv_field(row.name), row.measured.step,
                       writers::csv_field(row.measured.phase), row.measured.peak_allocated, row.peak_allocated,
                       row.measured.peak_reserved, row.peak_reserved);
  return out;
}

int write(const std::vector<compare::Row>& rows, const std::string& report, const Arguments& arguments,
          Streams& streams, const compare::Sides& sides = {}) {
  const Common& common = arguments.common;
  Written written;
  if (common.json) written.add(write_output(*common.json, compare::json(rows, sides), streams));
  if (common.csv) written.add(write_output(*common.csv, csv(rows), streams));
  if (common.html) written.add(write_output(*common.html, page(rows, sides), streams));
  if (common.markdown) written.add(write_output(*common.markdown, report, streams));
  if (!takes_standard_output(common)) {
    if (common.quiet)
      streams.out << compare::verdict(rows) << "\n";
    else
      streams.out << compare::table(rows, sides) << trend_text(compare::trends(rows));
  }
  return written.finish(compare::agrees(compare::summarise(rows)) ? kDone : kDisagrees, streams);
}

int compare_corpus(const Arguments& arguments, Streams& streams) {
  HEADROOM_CLI_ASSIGN(const compare::Corpus corpus, compare::read_corpus(arguments.all("--corpus")), streams);
  for (const auto& [run, why] : corpus.skipped) streams.err << "headroom: " << run << ": " << why << "\n";
  if (arguments.has("--time"))
    HEADROOM_CLI_TRY(write_output(arguments.text("--time"), compare::time_document(corpus.rows()), streams),
                     streams);
  if (arguments.has("--worst"))
    HEADROOM_CLI_TRY(write_output(arguments.text("--worst"), compare::run_errors_json(corpus), streams),
                     streams);
  return write(corpus.rows(), compare::accuracy_document(corpus), arguments, streams);
}

/// The run at the lengths that its log tells, where it tells them and no others are given.
Result<Report> predict_logged(Run& run, const compare::TrainingLog& log, const Arguments& arguments, Streams& streams) {
  const std::optional<Lengths> logged = compare::logged_lengths(log);
  const Batch& caps = run.read.job.batch;
  if (arguments.common.lengths || !logged || !within_caps(*logged, caps))
    return predict(run, simulating_executor());
  Lengths lengths = *logged;
  if (run.data_lengths) lengths.spread = run.data_lengths->spread;
  if (!takes_standard_output(arguments.common) && !arguments.common.quiet)
    streams.out << fmt::format("at the lengths logged: {}responses of {:.0f} tokens\n",
                               lengths.mean_prompt > 0 ? fmt::format("prompts of {:.0f}, ", lengths.mean_prompt) : "",
                               lengths.mean_response);
  run.read.job = at_expected_lengths(run.read.job, lengths);
  return simulating_executor()(run.read.job, run.hardware);
}

/// A training's own log beside the prediction.
int compare_logged(const std::string& path, const Arguments& arguments, Streams& streams) {
  HEADROOM_CLI_ASSIGN(const compare::TrainingLog log, compare::read_training_log(path), streams);
  HEADROOM_CLI_ASSIGN(Run run, load_run(arguments.text("CONFIG"), arguments.common, streams), streams);
  HEADROOM_CLI_ASSIGN(const Report report, predict_logged(run, log, arguments, streams), streams);
  const compare::LogComparison comparison = compare::compare_log(run.read.job, report, log);
  const Common& common = arguments.common;
  if (common.json) HEADROOM_CLI_TRY(write_output(*common.json, compare::json(comparison), streams), streams);
  if (common.markdown)
    HEADROOM_CLI_TRY(write_output(*common.markdown, compare::markdown(comparison), streams), streams);
  if (common.json != "-" && common.markdown != "-")
    streams.out << (common.quiet ? compare::verdict(comparison) : compare::table(comparison));
  return kDone;
}

/// One side of two: what its file holds, or, of a configuration, what is predicted.
Result<compare::Measured> side(const std::string& path, std::optional<compare::Held> held, const Arguments& arguments,
                               Streams& streams) {
  if (held) {
    held->run.name = path;
    return std::move(held->run);
  }
  HEADROOM_ASSIGN(const Run run, load_run(path, arguments.common, streams));
  HEADROOM_ASSIGN(const Report report, predict(run, simulating_executor()));
  return compare::side_of(report);
}

/// Two runs, whatever they come from, phase by phase.
int compare_sides(const std::string& first, std::optional<compare::Held> held, const std::string& second,
                  std::optional<compare::Held> other, const Arguments& arguments, Streams& streams) {
  HEADROOM_CLI_ASSIGN(const compare::Measured one, side(first, std::move(held), arguments, streams), streams);
  HEADROOM_CLI_ASSIGN(const compare::Measured two, side(second, std::move(other), arguments, streams), streams);
  const std::vector<compare::Row> rows = compare::compare(one, two);
  if (std::none_of(rows.begin(), rows.end(), [](const compare::Row& row) { return row.predicted; }))
    return report_error({.message = fmt::format("expected a phase of a name that {} has, too, found none", first),
                         .file = second,
                         .key = {}},
                        streams);
  const compare::Sides sides{.first = first, .second = second, .files = true};
  return write(rows, compare::markdown(rows, sides), arguments, streams, sides);
}

/// A prediction of `config` beside what was measured of it.
int compare_recording(const std::string& config, const compare::Measured& measured, const Arguments& arguments,
                      Streams& streams) {
  HEADROOM_CLI_ASSIGN(const Run run, load_run(config, arguments.common, streams), streams);
  HEADROOM_CLI_ASSIGN(const Report report, predict(run, simulating_executor()), streams);
  const std::vector<compare::Row> rows = compare::compare(report, measured);
  return write(rows, compare::markdown(rows), arguments, streams);
}

/// Whether it is to be read as a log: it is one, or it is not named as configurations are, so that a log's reader has to
/// say what is wrong.
bool is_log(const std::string& path) {
  for (const std::string_view end : {".yaml", ".yml", ".args", ".sh"})
    if (path.ends_with(end)) return false;
  return path != kCommandLine;
}

}  // namespace

Command compare_command() {
  return {
      .name = "compare",
      .summary = "holds a prediction against a recorded run, or any two runs, phase by phase",
      .options =
          {{"CONFIG", "",
            "the run's configuration (a recording that states its own needs no other), or a first recording, memory "
            "snapshot, allocation stream or prediction (--json)"},
           {"MEASURED", "",
            "one of these, too, or a training's log: verl's, NeMo RL's or TRL's console, JSON lines, trainer state or "
            "exported columns"},
           {"--corpus", "DIR", "every recording below DIR against its own case", false, true},
           output_file("--time", "with --corpus: write predicted against measured seconds (Markdown)"),
           output_file("--worst", "with --corpus: write each run's worst errors (JSON)")},
      .common = kJobFlags | kHardwareFlags | kJsonFlag | kReportFlags,
      .run = compare};
}

int compare(const Arguments& arguments, Streams& streams) {
  if (arguments.has("--corpus")) return compare_corpus(arguments, streams);
  if (!arguments.has("CONFIG"))
    return report_error(
        {.message = "expected CONFIG and MEASURED, or --corpus DIR", .file = {}, .key = "compare"}, streams);
  // A recording states its own case.
  const bool launched = arguments.has("--") && !arguments.has("MEASURED");  // MEASURED -- python3 …
  const std::string config = launched ? "--" : arguments.text("CONFIG");
  const std::string recording = arguments.text("MEASURED", arguments.text("CONFIG"));
  if (arguments.has("MEASURED")) {
    HEADROOM_CLI_ASSIGN(std::optional<compare::Held> held, compare::side_in(config), streams);
    HEADROOM_CLI_ASSIGN(std::optional<compare::Held> other, compare::side_in(recording), streams);
    if (!held && !other && is_log(recording)) return compare_logged(recording, arguments, streams);
    const bool recorded = other && other->recording;
    const bool own_case = recorded && config == recording;
    if ((held && !own_case) || !recorded)
      return compare_sides(config, std::move(held), recording, std::move(other), arguments, streams);
    return compare_recording(config, other->run, arguments, streams);
  }
  HEADROOM_CLI_ASSIGN(const compare::Measured measured, compare::read_measured(recording), streams);
  if (measured.phases.empty())
    return report_error(
        {.message = "expected measured phases, found none", .file = recording, .key = "phases"}, streams);
  return compare_recording(config, measured, arguments, streams);
}

}  // namespace headroom::cli

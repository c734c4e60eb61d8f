#include "planner/cli/compare.h"

#include <fmt/format.h>

#include <ostream>

#include "planner/cli/executors.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/compare/comparison.h"
#include "planner/compare/corpus.h"

namespace headroom::cli {
namespace {

int write(const std::vector<compare::Row>& rows, const std::string& report, const Arguments& arguments,
          Streams& streams) {
  const Common& common = arguments.common;
  Written written;
  if (common.json) written.add(write_output(*common.json, compare::json(rows), streams));
  if (common.markdown) written.add(write_output(*common.markdown, report, streams));
  if (common.json != "-" && common.markdown != "-" && !common.quiet)
    streams.out << compare::table(rows) << trend_text(compare::trends(rows));
  return written.finish(compare::agrees(compare::summarise(rows)) ? kDone : kDisagrees, streams);
}

int compare_corpus(const Arguments& arguments, Streams& streams) {
  HEADROOM_CLI_ASSIGN(const compare::Corpus corpus, compare::read_corpus(arguments.all("--corpus")), streams);
  for (const auto& [run, why] : corpus.skipped) streams.err << "headroom: " << run << ": " << why << "\n";
  if (arguments.has("--worst"))
    HEADROOM_CLI_TRY(write_output(arguments.text("--worst"), compare::run_errors_json(corpus), streams),
                     streams);
  return write(corpus.rows(), compare::accuracy_document(corpus), arguments, streams);
}

}  // namespace

Command compare_command() {
  return {
      .name = "compare",
      .summary = "holds a prediction against a recorded run, phase by phase",
      .options = {{"CONFIG", "", "the run's configuration; a recording that states its own needs no other"},
                  {"MEASURED", "", "the recording (JSON with `phases`)"},
                  {"--corpus", "DIR", "every recording below DIR against its own case", false, true},
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
  const std::string recording = arguments.text("MEASURED", arguments.text("CONFIG"));
  HEADROOM_CLI_ASSIGN(const compare::Measured measured, compare::read_measured(recording), streams);
  if (measured.phases.empty())
    return report_error(
        {.message = "expected measured phases, found none", .file = recording, .key = "phases"}, streams);
  HEADROOM_CLI_ASSIGN(const Run run, load_run(arguments.text("CONFIG"), arguments.common, streams), streams);
  HEADROOM_CLI_ASSIGN(const Report report, predict(run, simulating_executor()), streams);
  const std::vector<compare::Row> rows = compare::compare(report, measured);
  return write(rows, compare::markdown(rows), arguments, streams);
}

}  // namespace headroom::cli

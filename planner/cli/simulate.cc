#include "planner/cli/simulate.h"

#include <ostream>
#include <utility>

#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/writers/events.h"
#include "planner/writers/table.h"
#include "simulator/phases/simulate.h"
#include "simulator/replay/snapshot_writer.h"

namespace headroom::cli {

Command simulate_command() {
  return {
      .name = "simulate",
      .summary = "runs every allocation and free of a job's steps over the simulated allocators",
      .options = {{"CONFIG", "", "the run's configuration; `-` reads standard input", true},
                  output_file("--events", "write the complete stream of allocations and frees (JSON)"),
                  output_file("--pickle", "write the run as a memory snapshot, for PyTorch's memory_viz"),
                  {"--device", "N", "the GPU of what is written (default: the one that peaks highest)"},
                  {"--process", "NAME", "the training process of what is written, where there are several"},
                  {"--holders", "N", "how many holders at the overall peak to list (default 10)"}},
      .common = kJobFlags | kHardwareFlags | kBudgetFlags | kJsonFlag | kReportFlags,
      .run = simulate};
}

int simulate(const Arguments& arguments, Streams& streams) {
  const Common& common = arguments.common;
  HEADROOM_CLI_ASSIGN(const auto count, arguments.integer("--holders", 0, 1000), streams);
  HEADROOM_CLI_ASSIGN(const Run run, load_run(arguments.text("CONFIG"), common, streams), streams);
  HEADROOM_CLI_ASSIGN(const auto device, arguments.integer("--device", 0, 1 << 20), streams);
  EventStream events;
  replay::Snapshot snapshot;
  SimulateOptions options;
  options.holder_count = count.value_or(10);
  options.holders = options.holder_count > 0 && !common.quiet;
  if (arguments.has("--events")) options.events = &events;
  if (arguments.has("--pickle")) options.snapshot = &snapshot;
  options.device = device;
  options.process = arguments.text("--process");
  const Executor executor = [&](const Job& job, const Hardware& hardware) {
    // What is asked beside the report is of the run that decides: the first.
    Result<Report> report = headroom::simulate(job, hardware, std::exchange(options, {}));
    if (!report && (report.error().key == "device" || report.error().key == "process"))
      report.error().key.insert(0, "--");
    return report;
  };
  HEADROOM_CLI_ASSIGN(const Report report, predict(run, executor), streams);
  Written written;
  if (arguments.has("--events"))
    written.add(write_output(arguments.text("--events"), writers::events_json(events, report.title), streams));
  if (arguments.has("--pickle"))
    written.add(write_output(arguments.text("--pickle"), replay::snapshot_pickle(snapshot), streams));
  written.add(write_reports({&report, 1}, common, streams));
  const bool taken =
      takes_standard_output(common) || arguments.text("--events") == "-" || arguments.text("--pickle") == "-";
  if (!taken && !common.quiet) streams.out << writers::table(report, {.colour = streams.colour});
  return written.finish(report.fits ? kDone : kOver, streams);
}

}  // namespace headroom::cli

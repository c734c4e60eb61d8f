#include "planner/cli/simulate.h"

#include <fmt/format.h>

#include <ostream>
#include <utility>

#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/cli/suggestion.h"
#include "planner/writers/events.h"
#include "planner/writers/html/html.h"
#include "planner/writers/html/timeline.h"
#include "planner/writers/json.h"
#include "planner/writers/table.h"
#include "planner/writers/trace.h"
#include "simulator/phases/simulate.h"
#include "simulator/replay/snapshot_analysis.h"
#include "simulator/replay/snapshot_writer.h"

namespace headroom::cli {

namespace {

/// The report's page with every allocation of the process that was recorded.
Status write_page(const std::string& path, const Report& report, const replay::Snapshot& snapshot,
                  Streams& streams) {
  std::string json = writers::json(report);
  for (std::size_t device = 0; device < snapshot.traces.size(); ++device) {
    if (snapshot.traces[device].second == 0) continue;
    HEADROOM_ASSIGN(const replay::DeviceAnalysis analysis, replay::analyse_device(snapshot, device));
    json.erase(json.find_last_of('}'));
    json += ",\"timeline\":" +
            writers::timeline_json(snapshot, analysis, fmt::format("the training process of GPU {}", device)) + "}";
    break;
  }
  return write_output(path, writers::html_page(json), streams);
}

}  // namespace

Command simulate_command() {
  return {
      .name = "simulate",
      .summary = "runs every allocation and free of a job's steps over the simulated allocators",
      .options = {{"CONFIG", "", "the run's configuration; `-` reads standard input", true},
                  output_file("--events", "write the complete stream of allocations and frees (JSON)"),
                  output_file("--pickle", "write the run as a memory snapshot, for PyTorch's memory_viz"),
                  output_file("--trace", "write phases and memory over time, for Perfetto and Chrome"),
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
  if (arguments.has("--pickle") || common.html) options.snapshot = &snapshot;
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
  if (arguments.has("--trace")) written.add(write_output(arguments.text("--trace"), writers::trace(report), streams));
  Common others = common;
  if (others.html) written.add(write_page(*std::exchange(others.html, {}), report, snapshot, streams));
  written.add(write_reports({&report, 1}, others, streams));
  const bool taken =
      takes_standard_output(common) || arguments.text("--events") == "-" || arguments.text("--pickle") == "-" ||
      arguments.text("--trace") == "-";
  if (!taken && common.quiet) streams.out << writers::verdict(report) << "\n";
  if (!taken && !common.quiet)
    streams.out << writers::table(report, table_style(common, streams)) << suggestion(run, report);
  return written.finish(verdict_code(report), streams);
}

}  // namespace headroom::cli

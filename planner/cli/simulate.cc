#include "planner/cli/simulate.h"

#include <ostream>
#include <utility>

#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/writers/events.h"
#include "planner/writers/table.h"
#include "simulator/phases/device_run.h"
#include "simulator/phases/simulate.h"
#include "simulator/replay/snapshot_writer.h"

namespace headroom::cli {

Command simulate_command() {
  return {.name = "simulate",
          .summary = "runs every allocation and free of a job's steps over the simulated allocators",
          .options = {{"CONFIG", "", "the run's configuration; `-` reads standard input", true},
                      {"--events", "FILE", "write the complete stream of allocations and frees (JSON)"},
                      {"--pickle", "FILE", "write the run as a memory snapshot, for PyTorch's memory_viz"},
                      {"--holders", "N", "how many holders at the overall peak to list (default 10)"}},
          .common = kJobFlags | kHardwareFlags | kBudgetFlags | kJsonFlag | kReportFlags,
          .run = simulate};
}

int simulate(const Arguments& arguments, Streams& streams) {
  const Common& common = arguments.common;
  HEADROOM_CLI_ASSIGN(const auto count, arguments.integer("--holders", 0, 1000), streams);
  HEADROOM_CLI_ASSIGN(const Run run, load_run(arguments.text("CONFIG"), common, streams), streams);
  EventStream events;
  replay::Snapshot snapshot;
  bool recorded = false;  // of several runs (caps, expected lengths) the first is written
  const Executor executor = [&](const Job& job, const Hardware& hardware) -> Result<Report> {
    // Processes beside the trainer share the device: all of them run. Streams and holders are a lone
    // trainer's.
    const bool lone = job.processes.size() <= 1 && (job.processes.empty() || job.processes[0].engine.empty());
    if (!lone) {
      for (const char* flag : {"--events", "--pickle"})
        if (arguments.has(flag))
          return fail(Error{.message =
                                "expected a job of one training process, found an engine or others beside "
                                "it; their streams are not written yet",
                            .file = {},
                            .key = flag});
      return run_on_device(job, hardware, Fidelity::every_allocation);
    }
    SimulateOptions options = options_for(job, hardware);
    options.holder_count = count.value_or(10);
    options.holders = options.holder_count > 0 && !common.quiet;
    const bool records = !std::exchange(recorded, true);
    if (records && arguments.has("--events")) options.events = &events;
    if (records && arguments.has("--pickle")) options.snapshot = &snapshot;
    return headroom::simulate(job, options);
  };
  HEADROOM_CLI_ASSIGN(const Report report, predict(run, executor), streams);
  if (arguments.has("--events"))
    HEADROOM_CLI_TRY(
        write_output(arguments.text("--events"), writers::events_json(events, report.title), streams),
        streams);
  if (arguments.has("--pickle"))
    HEADROOM_CLI_TRY(write_output(arguments.text("--pickle"), replay::snapshot_pickle(snapshot), streams),
                     streams);
  HEADROOM_CLI_TRY(write_reports({&report, 1}, common, streams), streams);
  const bool taken =
      takes_standard_output(common) || arguments.text("--events") == "-" || arguments.text("--pickle") == "-";
  if (!taken && !common.quiet) streams.out << writers::table(report, {.colour = streams.colour});
  return report.fits ? kDone : kOver;
}

}  // namespace headroom::cli

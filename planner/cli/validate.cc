#include "planner/cli/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "simulator/phases/simulate.h"
#include "validator/comparison.h"
#include "validator/probe.h"
#include "validator/quick.h"
#include "validator/validate.h"

namespace headroom::cli {
namespace {

constexpr double kDefaultMargin = 0.03;

Result<gpu::Probe> run_probe(const Job& job, const SimulateOptions& options, int device, bool quick) {
  if (quick) return gpu::quick_probe(job, options.traits, device);
  return gpu::probe(job, options.traits, device);
}

/// A recorded run's phases, where CONFIG or `--recording` is one.
std::vector<gpu::RecordedPhase> recording(const Arguments& arguments) {
  const std::string path = arguments.text("--recording", arguments.text("CONFIG"));
  const auto document = read_document(path);
  return document ? gpu::recorded_phases(*document) : std::vector<gpu::RecordedPhase>{};
}

}  // namespace

Command validate_command() {
  return {.name = "validate",
          .summary = "runs the predicted program as real work on this machine's GPU and compares",
          .options = {{"CONFIG", "", "a framework's configuration, a job file, or a recorded run", true},
                      {"--quick", "", "run a few layers and scale: about a minute for a 7B rank"},
                      {"--recording", "FILE", "phases of a real PyTorch run, for a third column"},
                      {"--device", "N", "which card of this machine (default 0)"},
                      {"--within", "FRACTION", "relative error of a phase's device peak (default 0.03)"}},
          .common = kJobFlags | kHardwareFlags | kJsonFlag,
          .run = validate};
}

int validate(const Arguments& arguments, Streams& streams) {
  HEADROOM_CLI_TRY(gpu::available(), streams);
  HEADROOM_CLI_ASSIGN(const auto device, arguments.integer("--device", 0, 1023), streams);
  HEADROOM_CLI_ASSIGN(const auto within, arguments.number("--within", 0, 1), streams);
  const double margin = within.value_or(kDefaultMargin);
  const std::string config = arguments.text("CONFIG");
  HEADROOM_CLI_ASSIGN(const Run run, load_run(config, arguments.common, streams), streams);
  const Job& job = run.read.job;
  const SimulateOptions options = options_for(job, run.hardware);
  HEADROOM_CLI_ASSIGN(const Report predicted, simulate(job, options), streams);
  HEADROOM_CLI_ASSIGN(gpu::Probe probe,
                      run_probe(job, options, static_cast<int>(device.value_or(0)), arguments.has("--quick")),
                      streams);
  gpu::Validation result = gpu::compare(predicted, std::move(probe), recording(arguments));
  result.notes.push_back(
      "prediction and probe share one program: their agreement proves the allocator over real memory, "
      "libraries, context and rates; only PyTorch's column proves the program");
  if (arguments.has("--quick"))
    result.notes.push_back("quick: measured with 2 and 4 layers a model, scaled to all layers along a line");
  if (result.out_of_memory)
    result.notes.push_back(
        "to fit: smaller micro-batches, recomputation, or offloading; `headroom solve` ranks them");
  if (arguments.common.json)
    HEADROOM_CLI_TRY(write_output(*arguments.common.json, gpu::validation_json(result, margin), streams),
                     streams);
  if (arguments.common.json != "-" && !arguments.common.quiet) streams.out << gpu::validation_table(result);
  if (result.out_of_memory) return kOver;
  return result.probe_errors().worst <= margin && result.unmatched.empty() ? kDone : kDisagrees;
}

}  // namespace headroom::cli

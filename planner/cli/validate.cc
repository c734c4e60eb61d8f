#include "planner/cli/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "simulator/phases/device_run.h"
#include "validator/comparison.h"
#include "validator/launch/ranks.h"
#include "validator/launch/rendezvous.h"
#include "validator/probe.h"
#include "validator/quick.h"
#include "validator/validate.h"

namespace headroom::cli {
namespace {

constexpr double kDefaultMargin = 0.03;

/// A recorded run's phases, where `--recording` is one, or CONFIG as it stands.
std::vector<gpu::RecordedPhase> recording(const Arguments& arguments) {
  if (!arguments.has("--recording") && !arguments.common.overrides.empty()) return {};
  const std::string path = arguments.text("--recording", arguments.text("CONFIG"));
  const auto document = read_document(path);
  return document ? gpu::recorded_phases(*document) : std::vector<gpu::RecordedPhase>{};
}

/// One process a GPU; nothing where one is enough.
Result<std::optional<int>> start_ranks(std::int64_t ranks, const Job& job) {
  if (ranks <= 1) return std::optional<int>{};
  const std::int64_t most = job.pools.empty() ? 1 : job.pools.front().gpus();
  if (ranks > most)
    return fail(Error{.message = fmt::format("the job trains on {} GPUs, found {}", most, ranks),
                      .file = {},
                      .key = "--nproc"});
  HEADROOM_TRY(gpu::available());
  HEADROOM_ASSIGN(const auto words, launch::own_arguments());
  HEADROOM_ASSIGN(const int code, launch::spawn_ranks(static_cast<int>(ranks), words));
  return std::optional<int>(code);
}

void add_notes(const Arguments& arguments, gpu::Validation& result) {
  result.notes.push_back(
      "prediction and probe share one program: their agreement proves the allocator over real memory, "
      "libraries, context and rates; only PyTorch's column proves the program");
  if (arguments.has("--quick"))
    result.notes.push_back(
        "quick: run with 4 and 8 layers a model; what both took beyond their predictions is added to the "
        "prediction of all layers");
  if (result.out_of_memory)
    result.notes.push_back(
        "to fit: smaller micro-batches, recomputation, or offloading; `headroom solve` ranks them");
}

/// Every rank's result on rank 0; nothing on the others, whose part is over.
Result<bool> collect(launch::Rendezvous& ranks, gpu::Validation& result) {
  if (ranks.place().ranks == 1) return true;
  HEADROOM_ASSIGN(const std::vector<std::string> all, ranks.gather(to_text(result.summary())));
  for (const std::string& text : all) {
    HEADROOM_ASSIGN(gpu::RankSummary summary, gpu::rank_summary(text));
    result.ranks.push_back(summary);
  }
  return ranks.place().rank == 0;
}

bool within_margin(const gpu::Validation& result, double margin) {
  const auto good = [&](const gpu::RankSummary& rank) { return rank.errors.worst <= margin; };
  return result.probe_errors().worst <= margin && result.unmatched.empty() &&
         std::all_of(result.ranks.begin(), result.ranks.end(), good);
}

int validate_here(const Arguments& arguments, const Run& run, const launch::Place& place, int device,
                  double margin, Streams& streams) {
  const Job& job = run.read.job;
  const gpu::Predict predict = [&](const Job& one) {
    return run_on_device(one, run.hardware, Fidelity::every_allocation);
  };
  HEADROOM_CLI_ASSIGN(const Report predicted, predict(job), streams);
  HEADROOM_CLI_ASSIGN(launch::Rendezvous ranks, launch::Rendezvous::meet(place), streams);
  const gpu::ProbeOptions probing{
      .hardware = run.hardware, .ordinal = place.ranks > 1 ? place.local : device, .ranks = &ranks};
  HEADROOM_CLI_ASSIGN(
      gpu::Probe probe,
      arguments.has("--quick") ? gpu::quick_probe(job, probing, predict) : gpu::probe(job, probing), streams);
  gpu::Validation result = gpu::compare(predicted, std::move(probe), recording(arguments));
  if (result.title.empty()) result.title = job.name;
  add_notes(arguments, result);
  HEADROOM_CLI_ASSIGN(const bool writes, collect(ranks, result), streams);
  if (!writes) {
    if (result.out_of_memory)
      streams.err << "headroom: rank " << place.rank << ": " << *result.out_of_memory << "\n";
    return result.out_of_memory ? kOver : kDone;
  }
  if (arguments.common.json)
    HEADROOM_CLI_TRY(write_output(*arguments.common.json, gpu::validation_json(result, margin), streams),
                     streams);
  if (arguments.common.json != "-" && !arguments.common.quiet) streams.out << gpu::validation_table(result);
  if (result.out_of_memory) return kOver;
  return within_margin(result, margin) ? kDone : kDisagrees;
}

}  // namespace

Command validate_command() {
  return {.name = "validate",
          .summary = "runs the predicted program as real work on this machine's GPU and compares",
          .options = {{"CONFIG", "", "a framework's configuration, a job file, or a recorded run", true},
                      {"--quick", "", "run a few layers and scale: well under a minute for a 7B rank"},
                      {"--recording", "FILE", "phases of a real PyTorch run, for a third column"},
                      {"--device", "N", "which card of this machine (default 0)"},
                      {"--nproc", "N",
                       "GPUs of this machine, one rank each (default 1); or start the ranks "
                       "with torchrun, mpirun or srun"},
                      {"--within", "FRACTION", "relative error of a phase's device peak (default 0.03)"}},
          .common = kJobFlags | kHardwareFlags | kJsonFlag,
          .run = validate};
}

int validate(const Arguments& arguments, Streams& streams) {
  if (gpu::is_neighbour()) return gpu::serve_as_neighbour();
  HEADROOM_CLI_ASSIGN(const auto device, arguments.integer("--device", 0, 1023), streams);
  HEADROOM_CLI_ASSIGN(const auto within, arguments.number("--within", 0, 1), streams);
  HEADROOM_CLI_ASSIGN(const auto ranks, arguments.integer("--nproc", 1, 1024), streams);
  HEADROOM_CLI_ASSIGN(const Run run, load_run(arguments.text("CONFIG"), arguments.common, streams), streams);
  HEADROOM_CLI_TRY(gpu::available(), streams);
  HEADROOM_CLI_ASSIGN(const auto place, launch::find_place(launch::process_environment), streams);
  if (!place) {
    HEADROOM_CLI_ASSIGN(const std::optional<int> code, start_ranks(ranks.value_or(1), run.read.job), streams);
    if (code) return *code;
  }
  return validate_here(arguments, run, place.value_or(launch::Place{}), static_cast<int>(device.value_or(0)),
                       within.value_or(kDefaultMargin), streams);
}

}  // namespace headroom::cli

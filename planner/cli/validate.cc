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
#include "validator/probe_seconds.h"
#include "validator/quick.h"
#include "validator/validate.h"

namespace headroom::cli {
namespace {

constexpr double kDefaultMargin = 0.03;

constexpr const char* kHeard = "rank 0 has this rank's result";
constexpr int kWaited = 15;  ///< seconds for ranks that may wait in a collective for ever

/// A recorded run's phases: those of `--recording`, which must have some, or CONFIG's as it stands.
Result<std::vector<gpu::RecordedPhase>> recording(const Arguments& arguments) {
  const bool asked = arguments.has("--recording");
  if (!asked && !arguments.common.overrides.empty()) return std::vector<gpu::RecordedPhase>{};
  const std::string path = arguments.text("--recording", arguments.text("CONFIG"));
  const auto document = read_document(path);
  if (!asked) return document ? gpu::recorded_phases(*document) : std::vector<gpu::RecordedPhase>{};
  if (!document) return fail(document.error());
  std::vector<gpu::RecordedPhase> phases = gpu::recorded_phases(*document);
  if (phases.empty())
    return fail(Error{.message = "expected a recorded run: a list of maps with step, phase, peak_alloc and "
                                 "peak_reserved; found no phase",
                      .file = path,
                      .line = document->line(),
                      .key = "phases"});
  return phases;
}

/// Errors where the ranks that ran or shall run are more than the job's, or `--device` names a card for all.
Status fitting_ranks(const Arguments& arguments, std::int64_t ranks, const Job& job, bool launched) {
  if (ranks <= 1) return {};
  const std::int64_t most = job.pools.empty() ? 1 : job.pools.front().gpus();
  if (ranks > most)
    return fail(Error{
        .message = fmt::format("the job trains on {} GPUs: expected no more ranks, found {}", most, ranks),
        .file = {},
        .key = launched ? "the launcher's number of ranks" : "--nproc"});
  if (arguments.has("--device"))
    return fail(Error{.message = "expected with one rank only: each of several takes the card of its place "
                                 "(CUDA_VISIBLE_DEVICES chooses among them)",
                      .file = {},
                      .key = "--device"});
  return {};
}

void add_notes(gpu::Validation& result) {
  result.notes.push_back(
      "prediction and probe share one program: their agreement proves the allocator over real memory, "
      "libraries, context and rates; only PyTorch's column proves the program");
  if (result.ran_out())
    result.notes.push_back(
        "to fit: smaller micro-batches, recomputation, or offloading; `headroom solve` ranks them");
}

/// Adds the results of those ranks that could send one.
Status add_ranks(const std::vector<std::optional<std::string>>& all, gpu::Validation& result) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank]) {
      result.notes.push_back(
          fmt::format("rank {} sent no result: it may wait for one that ran out of memory", rank));
      continue;
    }
    HEADROOM_ASSIGN(gpu::RankSummary summary, gpu::rank_summary(*all[rank]));
    result.ranks.push_back(std::move(summary));
  }
  return {};
}

/// Every rank's result where the report is written: on rank 0. Whether that is here. A rank that ran out of
/// memory leaves the others in a collective: rank 0 then takes what comes in a while, and another rank writes
/// the report itself unless rank 0 says that it has its result.
Result<bool> collect(launch::Rendezvous& ranks, gpu::Validation& result) {
  if (ranks.place().ranks == 1) return true;
  const std::string own = to_text(result.summary());
  std::vector<std::optional<std::string>> all;
  if (ranks.place().rank != 0) {
    const auto sent = ranks.gather(own);
    if (!result.out_of_memory) {
      if (!sent) return fail(sent.error());
      return false;
    }
    if (sent && ranks.heard_within(kHeard, kWaited + 5)) return false;
    all.resize(static_cast<std::size_t>(ranks.place().ranks));
    all[static_cast<std::size_t>(ranks.place().rank)] = own;
  } else if (result.out_of_memory) {
    HEADROOM_ASSIGN(all, ranks.gather_within(own, kWaited));
  } else {
    HEADROOM_ASSIGN(const auto complete, ranks.gather(own));
    all.assign(complete.begin(), complete.end());
  }
  HEADROOM_TRY(add_ranks(all, result));
  if (ranks.place().rank == 0) ranks.tell(kHeard);
  return true;
}

int validate_here(const Arguments& arguments, const Run& run, const launch::Place& place, int device,
                  double margin, const std::vector<gpu::RecordedPhase>& recorded, Streams& streams) {
  const Job& job = run.read.job;
  const gpu::Predict predict = [&](const Job& one) {
    return run_on_device(one, run.hardware, Fidelity::every_allocation);
  };
  HEADROOM_CLI_ASSIGN(const Report predicted, predict(job), streams);
  HEADROOM_CLI_ASSIGN(const int cards, gpu::visible_cards(), streams);
  HEADROOM_CLI_ASSIGN(launch::Rendezvous ranks, launch::Rendezvous::meet(place), streams);
  const gpu::ProbeOptions probing{
      .hardware = run.hardware, .ordinal = place.ranks > 1 ? place.card(cards) : device, .ranks = &ranks};
  HEADROOM_CLI_ASSIGN(
      gpu::Probe probe,
      arguments.has("--quick") ? gpu::quick_probe(job, probing, predict) : gpu::probe(job, probing), streams);
  gpu::Validation result = gpu::compare(predicted, std::move(probe), recorded);
  if (result.title.empty()) result.title = job.name;
  if (result.probe.launch > 0) {
    HEADROOM_CLI_ASSIGN(const Report work, gpu::probes_own_seconds(job, run.hardware, result.probe.launch), streams);
    gpu::time_by(work, result);
  }
  HEADROOM_CLI_ASSIGN(const bool writes, collect(ranks, result), streams);
  if (!writes) {
    if (result.out_of_memory)
      streams.err << "headroom: rank " << place.rank << ": " << *result.out_of_memory << "\n";
    return result.out_of_memory ? kOver : kDone;
  }
  add_notes(result);
  if (arguments.common.json)
    HEADROOM_CLI_TRY(write_output(*arguments.common.json, gpu::validation_json(result, margin), streams),
                     streams);
  if (arguments.common.json != "-" && !arguments.common.quiet)
    streams.out << gpu::validation_table(result, margin);
  if (result.ran_out()) return kOver;
  return result.beyond(margin).empty() ? kDone : kDisagrees;
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
  if (gpu::is_neighbour()) {
    HEADROOM_CLI_ASSIGN(const int code, gpu::serve_as_neighbour(), streams);
    return code;
  }
  HEADROOM_CLI_ASSIGN(const auto device, arguments.integer("--device", 0, 1023), streams);
  HEADROOM_CLI_ASSIGN(const auto within, arguments.number("--within", 0, 1), streams);
  HEADROOM_CLI_ASSIGN(const auto nproc, arguments.integer("--nproc", 1, 1024), streams);
  const std::optional<int> wanted = nproc ? std::optional<int>(static_cast<int>(*nproc)) : std::nullopt;
  HEADROOM_CLI_ASSIGN(const auto recorded, recording(arguments), streams);
  HEADROOM_CLI_ASSIGN(const Run run, load_run(arguments.text("CONFIG"), arguments.common, streams), streams);
  HEADROOM_CLI_ASSIGN(const auto place, launch::find_place(launch::process_environment, wanted), streams);
  const int ranks = place ? place->ranks : wanted.value_or(1);
  HEADROOM_CLI_TRY(fitting_ranks(arguments, ranks, run.read.job, place.has_value()), streams);
  HEADROOM_CLI_ASSIGN(const int cards, gpu::visible_cards(), streams);
  if (!place && ranks > 1) {
    HEADROOM_CLI_TRY(launch::enough_cards(ranks, cards), streams);
    HEADROOM_CLI_ASSIGN(const auto words, launch::own_arguments(), streams);
    HEADROOM_CLI_ASSIGN(const int code, launch::spawn_ranks(ranks, words), streams);
    return code;
  }
  return validate_here(arguments, run, place.value_or(launch::Place{}), static_cast<int>(device.value_or(0)),
                       within.value_or(kDefaultMargin), recorded, streams);
}

}  // namespace headroom::cli

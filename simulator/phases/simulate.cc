#include "simulator/phases/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "simulator/phases/phase_interpreter.h"
#include "simulator/phases/trainer_process.h"

namespace headroom {
namespace {

/// A training process on a GPU.
struct Subject {
  std::size_t kind = 0;  ///< index in `gpu_kinds`
  PhaseInterpreter::Trainer trainer;
  Bytes device_peak = 0, reserved_peak = 0;
};

bool is_on(const GpuKind& kind, const SimulateOptions& options) {
  return !options.device || kind.holds(*options.device);
}

/// The process to look at: on the GPU that peaks highest, the one that reserves most.
Result<Subject> choose(const std::vector<GpuKind>& kinds, const std::vector<GpuRun>& runs,
                       const SimulateOptions& options) {
  std::optional<Subject> best;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!is_on(kinds[i], options)) continue;
    for (const PhaseInterpreter::Trainer& trainer : runs[i].trainers) {
      if (!options.process.empty() && options.process != trainer.process) continue;
      Subject subject{.kind = i, .trainer = trainer};
      for (const PhaseReport& phase : runs[i].report.phases) {
        subject.device_peak = std::max(subject.device_peak, phase.peak_device);
        for (const ProcessPhase& row : phase.processes)
          if (row.process == trainer.process)
            subject.reserved_peak = std::max(subject.reserved_peak, row.peak_reserved);
      }
      if (!best || std::pair(subject.device_peak, subject.reserved_peak) >
                       std::pair(best->device_peak, best->reserved_peak))
        best = std::move(subject);
    }
  }
  if (best) return *best;
  std::string known;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const PhaseInterpreter::Trainer& trainer : runs[i].trainers)
      known += fmt::format("{}{} on GPU {} to {} of pool {}", known.empty() ? "" : ", ", trainer.process,
                           kinds[i].rank, kinds[i].rank + kinds[i].alike - 1, kinds[i].pool->name);
  return fail(Error{.message = fmt::format("expected a training process of the run, which has {}",
                                           known.empty() ? "none" : known),
                    .file = {},
                    .key = options.process.empty() ? "device" : "process"});
}

/// Runs the subject's GPU again, looking on.
Status record(const Job& job, const Hardware& hardware, const SimulateOptions& options, const GpuKind& kind,
              const PhaseInterpreter::Trainer& trainer, std::vector<Holder>& holders) {
  RunRecorder recorder({.stream = options.events != nullptr,
                        .snapshot = options.snapshot != nullptr,
                        .holders_at = options.holders ? trainer.peak_allocation : 0});
  const MakeTrainer make_trainer = program_recorded([&](const Process& process) {
    return process.name == trainer.process ? &recorder : nullptr;
  });
  PhaseInterpreter run(job, hardware, make_trainer, *kind.pool, kind.rank + kind.followed);
  HEADROOM_TRY(run.prepare(false));
  HEADROOM_TRY(run.execute());
  if (options.holders) holders = recorder.holders(static_cast<std::size_t>(options.holder_count));
  const Process* process = job.process(trainer.process);
  const std::string settings = process == nullptr ? "" : process->allocator_settings;
  if (options.events != nullptr)
    *options.events = {.process = trainer.process,
                       .settings = settings,
                       .device = kind.rank,
                       .events = recorder.events(),
                       .phases = recorder.phases(),
                       .modules = recorder.modules()};
  if (options.snapshot != nullptr) *options.snapshot = recorder.snapshot(settings);
  return {};
}

/// Every kind of GPU, its training processes watched.
Result<std::vector<GpuRun>> run_watched(const Job& job, const Hardware& hardware,
                                        const std::vector<GpuKind>& kinds, bool leave_out_repetitions,
                                        std::vector<ProcessFragmentation>& out) {
  std::vector<GpuRun> runs;
  for (const GpuKind& kind : kinds) {
    std::map<std::string, RunRecorder> recorders;
    const MakeTrainer make_trainer = program_recorded([&](const Process& process) {
      return &recorders.try_emplace(process.name, RunRecorder::Wanted{.fragmentation = true}).first->second;
    });
    HEADROOM_ASSIGN(GpuRun run, run_gpu(job, hardware, make_trainer, kind, {.leave_out_repetitions = leave_out_repetitions}));
    runs.push_back(std::move(run));
    for (auto& [process, recorder] : recorders)
      out.push_back({.process = process, .device = kind.rank, .phases = recorder.fragmentation()});
  }
  return runs;
}

}  // namespace

Result<Report> simulate(const Job& job, const Hardware& hardware, const SimulateOptions& options) {
  HEADROOM_TRY(validate_job(job));
  const std::vector<GpuKind> kinds = gpu_kinds_by_shard(job);
  HEADROOM_ASSIGN(std::vector<GpuRun> runs,
                  options.fragmentation != nullptr
                      ? run_watched(job, hardware, kinds, options.leave_out_repetitions, *options.fragmentation)
                      : run_gpus(job, hardware, program_over(Fidelity::every_allocation), kinds,
                                 {.leave_out_repetitions = options.leave_out_repetitions}));
  const bool recorded = options.events != nullptr || options.snapshot != nullptr;
  if (recorded || options.holders) {
    const Result<Subject> subject = choose(kinds, runs, options);
    if (subject)
      HEADROOM_TRY(record(job, hardware, options, kinds[subject->kind], subject->trainer,
                          runs[subject->kind].report.holders));
    else if (recorded || options.device || !options.process.empty())
      return tl::unexpected(subject.error());
  }
  return report_of(job, "simulator", std::move(runs));
}

}  // namespace headroom

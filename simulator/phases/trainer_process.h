#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/phases/device_run.h"
#include "simulator/time/seconds.h"

namespace headroom {

class RunRecorder;

/// A training process as a device's run sees it: actions go in, memory and seconds come out.
class TrainerProcess {
 public:
  virtual ~TrainerProcess() = default;

  /// One action of `step` (-1 before the first). Errors: what no program covers.
  virtual Status act(const Action& action, int step) = 0;

  /// What others hold of the card from now on: an allocator finds only the rest.
  virtual void set_others(Bytes) {}

  /// Around every phase that has a row.
  virtual void begin_phase(const std::string& /*name*/, int /*step*/) {}
  virtual void end_phase(const std::string& /*name*/) {}
  /// What a recorder leaves at the start of a phase in a trace: a tensor made and dropped.
  virtual void mark(Bytes) {}

  /// Whether equal layers of a decoded token are left out where their effect is proved; from the start on.
  virtual void leave_out_repetitions(bool) {}
  /// What was left out would have gone another way after all: the run's figures are void, run again without.
  virtual bool left_out_wrongly() const { return false; }

  struct State {
    Breakdown allocated;
    Bytes reserved = 0;
    Breakdown host;
  };
  struct Piece {
    State peak;  ///< allocated at its peak; the highest reserved and host values
    Bytes peak_active = 0;
  };
  virtual State now() const = 0;
  /// Peaks and seconds since the last call.
  virtual Piece take_piece() = 0;
  virtual Seconds take_seconds() = 0;

  virtual std::optional<std::string> out_of_memory() const { return std::nullopt; }
  virtual std::int64_t allocations() const { return 0; }
  /// The one, counted from 1, at which the highest allocated value so far was reached; 0: not known.
  virtual std::int64_t peak_allocation() const { return 0; }
  virtual std::int64_t segments() const { return 0; }
  virtual std::int64_t retries() const { return 0; }
  virtual Bytes inactive_split() const { return 0; }
};

/// Makes the process that `process` of `job` is on GPU `rank` of `pool`. All arguments outlive what is made.
using MakeTrainer = std::function<Result<std::unique_ptr<TrainerProcess>>(
    const Job& job, const Process& process, const Pool& pool, const Hardware& hardware, std::int64_t rank)>;

/// Whether the host is taken to run ahead of the device. FSDP1 frees what it gathered on one stream while
/// another still works with it, and is the only program here that waits for the device by itself, before each
/// gather. Where it gathers nothing (one rank) and layers keep the host longer than the device, the device
/// keeps up; elsewhere the host is ahead. Cards without known rates count as slower than the host.
bool runs_ahead(const Job& job, const Hardware& hardware);

/// Whether memory that other streams use is had again as the process's clocks say. Megatron-Core lets NCCL's streams use
/// what virtual stages send and does not wait for them; how far the device is behind its host then decides what the
/// allocator has to get anew.
bool follows_clock(const Job& job);

/// The process's program over a Memory of that fidelity.
MakeTrainer program_over(Fidelity fidelity);

/// Over the simulated allocator, with recorders that outlive what is made. `recorder_of` gives a process's; null:
/// it has none.
using RecorderOf = std::function<RunRecorder*(const Process& process)>;
MakeTrainer program_recorded(RecorderOf recorder_of);

/// The process's program on a real machine, which outlives it; one at a time.
MakeTrainer program_on(Machine& machine);

/// `run_on_device` with trainers of the caller's making; `executor` names it in the report.
/// `goes_on_without_engines`: an engine that does not start is told where that is, and does not end the run.
Result<Report> run_on_device(const Job& job, const Hardware& hardware, const MakeTrainer& make_trainer,
                             std::string executor, bool goes_on_without_engines = false);

}  // namespace headroom

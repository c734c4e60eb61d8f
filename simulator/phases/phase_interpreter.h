#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "simulator/device/engine_process.h"
#include "simulator/device/occupancy.h"
#include "simulator/device/outside.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/phases/device_run.h"
#include "simulator/phases/machine.h"
#include "simulator/phases/node_host.h"
#include "simulator/phases/phase_rows.h"
#include "simulator/phases/trainer_process.h"
#include "simulator/report/report.h"

namespace headroom {

/// The interpreter of phases: runs a job's step, action by action, on one GPU with all processes that live
/// there. Processes act one after the other; while one acts, the others hold what they hold.
class PhaseInterpreter {
 public:
  /// `rank`: of `pool`. With a `machine` one training process runs on it and engines are its neighbours. All
  /// arguments outlive the interpreter.
  PhaseInterpreter(const Job& job, const Hardware& hardware, const MakeTrainer& make_trainer,
                   const Pool& pool, std::int64_t rank, Machine* machine = nullptr);

  /// An engine that does not start does not end the run: it goes on with what little it then holds.
  void go_on_without_engines() { goes_on_ = true; }
  /// Makes the processes. A job that names none trains in one on its first pool.
  Status prepare(bool leave_out_repetitions = true);
  /// All phases of all steps; afterwards the processes still hold what they hold. Running out of memory ends
  /// the run, in the phase's row. Errors: what no program covers.
  Result<std::vector<PhaseReport>> execute();

  std::vector<Warning> warnings() const;
  struct Trainer {
    std::string process;
    std::int64_t peak_allocation = 0;  ///< see TrainerProcess
  };
  std::vector<Trainer> trainers() const;
  /// Start-ups of the engines that have started here.
  std::vector<EngineReport> engines() const;
  /// See TrainerProcess.
  bool left_out_wrongly() const;

 private:
  /// A training process in the device's books.
  struct RunningTrainer {
    const Process* process = nullptr;
    std::unique_ptr<TrainerProcess> run;
    OutsideGrowth outside;
    Bytes room = 0;            ///< what its allocator may take of the card at most, in the current action
    std::int64_t retries = 0;  ///< that are accounted for
  };
  /// An engine's process and its place in the device's books.
  struct RunningEngine {
    std::string name;  ///< of its row: its process, or its own inside a trainer's
    const Engine* engine = nullptr;
    EngineProcess state;
    std::size_t slot = 0;
  };
  /// Training processes' rows of the running phase, by slot.
  using Rows = std::map<std::size_t, ProcessPhase>;

  Bytes total_memory() const;
  /// What a trainer takes beside its allocator.
  OutsideGrowth outside_of(const Process& process) const;
  Status add_trainer(const Process& process, bool leave_out_repetitions);
  Status add_engine(const Process& process, bool inside_trainer);
  RunningTrainer* trainer_of(const std::string& role, std::size_t& slot);
  bool runs_inside(const std::string& engine) const;
  /// Whether the role's trainer is on this GPU.
  bool holds(const std::string& role);
  bool receive(const Action& action, PhaseReport& report) const;

  Status run(const PhaseSpec& phase, int step);
  Rows begin(const PhaseSpec& phase, const std::string& name, int step);
  static void restart(const TrainerProcess::Piece& now, ProcessPhase& row);
  static void finish(const RunningTrainer& t, ProcessPhase& row);
  void add_row(const RunningEngine& e, PhaseReport& report) const;
  /// True when something of this device acted.
  Result<bool> act(const Action& action, int step, PhaseReport& report, Rows& rows);
  Result<bool> act_engines(const Action& action, PhaseReport& report);
  Status act_engine(RunningEngine& e, const Action& action, PhaseReport& report);
  Status act_trainer(RunningTrainer& t, std::size_t slot, const Action& action, int step, ProcessPhase& row);
  void engine_failed(const RunningEngine& e, std::string why, PhaseReport& report);
  /// What the trainer holds now, in the device's books.
  void hold(const RunningTrainer& t, std::size_t slot);
  void account_for(RunningTrainer& t, std::size_t slot, ProcessPhase& row, const Role* gathered = nullptr);
  /// Of every trainer; or of the one whose process runs `engine`, which empties the allocator that they share
  /// before it measures what is left.
  Status empty_caches(Rows& rows, const std::string& engine = "");

  const Job& job_;
  const Hardware& hardware_;
  const MakeTrainer& make_trainer_;
  const Pool& pool_;
  std::int64_t rank_;
  Machine* machine_;
  const Process implied_;  ///< of a job that names no processes
  NodeHost host_;
  Occupancy occupancy_;
  std::map<std::size_t, RunningTrainer> trainers_;  ///< by slot in the device's books
  std::vector<RunningEngine> engines_;
  PhaseRows rows_;
  bool failed_ = false;
  bool goes_on_ = false;
};

/// What a run on one kind of GPU tells.
struct GpuRun {
  DeviceReport report;
  std::vector<Warning> warnings;
  std::vector<PhaseInterpreter::Trainer> trainers;
};

/// How a GPU's run is made.
struct GpuRunOptions {
  Machine* machine = nullptr;
  bool leave_out_repetitions = true;
  bool goes_on_without_engines = false;  ///< see PhaseInterpreter
};

/// Interprets all phases on `kind`'s GPU; again with every repetition executed where leaving them out went
/// wrong. Errors as `run_on_device`.
Result<GpuRun> run_gpu(const Job& job, const Hardware& hardware, const MakeTrainer& make_trainer,
                       const GpuKind& kind, GpuRunOptions options = {});

/// One after the other, each over its own Memory.
Result<std::vector<GpuRun>> run_gpus(const Job& job, const Hardware& hardware,
                                     const MakeTrainer& make_trainer, std::span<const GpuKind> kinds,
                                     GpuRunOptions options = {});

/// The report of all kinds, in order. Devices without phases are left out.
Report report_of(const Job& job, std::string executor, std::vector<GpuRun> runs);

}  // namespace headroom

#include "simulator/phases/device_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "simulator/device/engine_process.h"
#include "simulator/device/occupancy.h"
#include "simulator/device/outside.h"
#include "simulator/device/process.h"
#include "simulator/job/batching.h"
#include "simulator/phases/node_host.h"
#include "simulator/phases/rollout_time.h"
#include "simulator/phases/trainer_process.h"

namespace headroom {
namespace {

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

/// GPUs of a pool hold different parts of a model where a pipeline's stages differ: as many kinds as the
/// longest pipeline has stages, each of equally many neighbouring ranks.
std::int64_t kinds_of_ranks(const Job& job, const Pool& pool) {
  std::int64_t kinds = 1;
  for (const Role& role : job.roles) {
    const Process* process = job.process_of(role.name);
    const bool here = process == nullptr ? &pool == &job.pools.front() : process->pool == pool.name;
    if (here && role.sharding.kind == ShardingKind::megatron && pool.gpus() % role.parallel.pipeline == 0)
      kinds = std::max(kinds, role.parallel.pipeline);
  }
  return kinds;
}

/// One GPU of one pool.
class DeviceRun {
 public:
  DeviceRun(const Job& job, const Hardware& hardware, const MakeTrainer& make_trainer, const Pool& pool,
            std::int64_t rank, Machine* machine)
      : job_(job),
        hardware_(hardware),
        make_trainer_(make_trainer),
        pool_(pool),
        rank_(rank),
        machine_(machine),
        host_(job, pool) {}

  Status prepare() {
    for (const Process& process : job_.processes) {
      if (process.pool != pool_.name) continue;
      // An engine can live inside a trainer's process: it has no context and no communicators of its own.
      const bool trains = process.engine.empty() || !process.roles.empty();
      if (trains) HEADROOM_TRY(add_trainer(process));
      if (!process.engine.empty()) HEADROOM_TRY(add_engine(process, trains));
    }
    return {};
  }

  Result<DeviceReport> execute() {
    DeviceReport out;
    out.pool = &pool_ == &job_.pools.front() ? "" : pool_.name;
    out.device = rank_;
    out.alike = pool_.gpus() / kinds_of_ranks(job_, pool_);
    for (const PhaseSpec& phase : job_.start) HEADROOM_TRY(run(phase, -1, out));
    for (int step = 0; step < job_.steps; ++step)
      for (const PhaseSpec& phase : job_.step)
        if (runs_in(phase, step, job_.steps)) HEADROOM_TRY(run(phase, step, out));
    return out;
  }

  std::vector<Warning> warnings() const {
    std::vector<Warning> out;
    for (const RunningEngine& e : engines_)
      if (const auto slow = e.state.slow()) {
        Warning& warning = out.emplace_back();
        warning.code = "kv-preemption";
        warning.message = *slow;
      }
    return out;
  }

 private:
  // --- Processes

  Bytes total_memory() const { return job_.device_memory > 0 ? job_.device_memory : hardware_.total_memory; }

  Status add_trainer(const Process& process) {
    if (machine_ != nullptr && !trainers_.empty())
      return fail(fmt::format("process {}: one training process can run on a real GPU, the job has several",
                              process.name));
    RunningTrainer t{.process = &process,
                     .run = {},
                     .outside = OutsideGrowth(hardware_, process.communicators, pool_.gpus(),
                                              peers_of(job_, process, pool_.gpus(), rank_))};
    HEADROOM_ASSIGN(t.run, make_trainer_(job_, process, pool_, hardware_, rank_));
    const std::size_t index = occupancy_.add(process.name);
    occupancy_.hold(index, process_on_device({}, 0, t.outside.now()));
    trainers_.emplace(index, std::move(t));
    return {};
  }

  Status add_engine(const Process& process, bool inside_trainer) {
    const Engine* engine = job_.engine(process.engine);
    if (engine == nullptr)
      return fail(fmt::format("process {}: no engine is named {}", process.name, process.engine));
    engines_.push_back({.name = inside_trainer ? engine->name : process.name,
                        .engine = engine,
                        .state = EngineProcess(job_, *engine, hardware_, inside_trainer),
                        .slot = occupancy_.add(inside_trainer ? engine->name : process.name)});
    return {};
  }

  RunningTrainer* trainer_of(const std::string& role, std::size_t& slot) {
    for (auto& [index, trainer] : trainers_) {
      const auto& roles = trainer.process->roles;
      if (role.empty() || roles.empty() || std::find(roles.begin(), roles.end(), role) != roles.end()) {
        slot = index;
        return &trainer;
      }
    }
    return nullptr;
  }

  // --- Phases

  Status run(const PhaseSpec& phase, int step, DeviceReport& out) {
    if (failed_) return {};
    PhaseReport report;
    report.step = step;
    report.phase = phase.name.empty() ? name(phase.kind) : phase.name;
    std::map<std::size_t, ProcessPhase> rows;
    for (auto& [slot, trainer] : trainers_) rows.emplace(slot, begin(trainer));
    bool acted = false;
    if (machine_ != nullptr) HEADROOM_TRY(machine_->begin_phase());
    for (const Action& action : phase.actions) {
      HEADROOM_ASSIGN(const bool here, act(action, step, report, rows));
      acted = acted || here;
      if (failed_) break;
    }
    const Occupancy::Peak peak = occupancy_.take_peak();
    if (!acted) return {};
    report.at_peak_device = peak.bytes;
    report.peak_device = peak.bytes.total();
    report.at_peak_host = host_.take_peak();
    report.peak_host = report.at_peak_host.total();
    for (auto& [slot, row] : rows) finish(trainers_.at(slot), row);
    if (phase.empties_cache) HEADROOM_TRY(empty_caches(rows));
    if (!phase.reported) return {};
    for (auto& [slot, row] : rows) report.processes.push_back(std::move(row));
    for (const RunningEngine& e : engines_) add_row(e, report);
    out.phases.push_back(std::move(report));
    return machine_ != nullptr ? machine_->end_phase(out.phases.back()) : Status{};
  }

  ProcessPhase begin(RunningTrainer& t) {
    ProcessPhase row;
    row.process = t.process->name;
    const TrainerProcess::State now = t.run->now();
    row.allocated_start = now.allocated.total();
    row.reserved_start = now.reserved;
    row.n_allocs = -t.run->allocations();
    row.peak_allocated = row.allocated_start;
    row.peak_reserved = row.reserved_start;
    row.at_peak_allocated = now.allocated;
    row.outside = t.outside.now().total();
    row.communicators = t.outside.now().communicators;
    t.run->take_piece();
    return row;
  }

  void finish(const RunningTrainer& t, ProcessPhase& row) {
    const TrainerProcess::State now = t.run->now();
    row.allocated_end = now.allocated.total();
    row.reserved_end = now.reserved;
    row.n_allocs += t.run->allocations();
    row.segments = t.run->segments();
    row.retries = t.run->retries();
    row.inactive_split_end = t.run->inactive_split();
    if (row.peak_reserved > 0)
      row.fragmentation_at_peak = static_cast<double>(row.peak_reserved - row.peak_allocated) /
                                  static_cast<double>(row.peak_reserved);
  }

  void add_row(const RunningEngine& e, PhaseReport& report) {
    if (!e.state.started() || e.state.failure()) return;
    ProcessPhase row;
    row.process = e.name;
    row.roles = {e.engine->role};
    row.at_peak_allocated = e.state.device();
    for (const Component c : {Component::context, Component::communicators, Component::engine_graphs})
      row.outside += std::exchange(row.at_peak_allocated[c], 0);
    row.allocated_start = row.allocated_end = row.peak_allocated = row.at_peak_allocated.total();
    row.reserved_start = row.reserved_end = row.peak_reserved = row.peak_active = row.peak_allocated;
    report.processes.push_back(std::move(row));
  }

  // --- Actions

  /// True when something of this device acted.
  Result<bool> act(const Action& action, int step, PhaseReport& report,
                   std::map<std::size_t, ProcessPhase>& rows) {
    if (!action.engine.empty()) {
      bool here = false;
      for (RunningEngine& e : engines_)
        if (e.engine->name == action.engine) {
          HEADROOM_TRY(act_engine(e, action, report));
          here = true;
        }
      // What an engine inside the trainer's process generates, the trainer's program runs.
      if (here ? action.verb != Verb::sync_weights : !runs_inside(action.engine)) return here;
      if (action.role.empty()) return here;
    }
    std::size_t slot = 0;
    RunningTrainer* t = trainer_of(action.role, slot);
    if (t == nullptr) return false;
    ProcessPhase& row = rows.at(slot);
    if (action.verb == Verb::build && job_.role(action.role) != nullptr)
      host_.loading(*job_.role(action.role));
    t->outside.begin(action);
    row.outside = t->outside.now().total();
    row.communicators = t->outside.now().communicators;
    const Bytes others = occupancy_.now().total() - occupancy_.held(slot).total() + t->outside.now().total();
    t->room = total_memory() - others;
    t->run->set_others(others);
    HEADROOM_TRY(t->run->act(action, step));
    if (action.verb == Verb::save && action.gathered && job_.role(action.role) != nullptr)
      host_.gathering(*job_.role(action.role));
    if (!action.role.empty() && std::find(row.roles.begin(), row.roles.end(), action.role) == row.roles.end())
      row.roles.push_back(action.role);
    account_for(*t, slot, row);
    report.seconds += t->run->take_seconds();
    return true;
  }

  /// The piece of work that has just run, in the device's, the host's and the row's books.
  void account_for(RunningTrainer& t, std::size_t slot, ProcessPhase& row) {
    const TrainerProcess::Piece piece = t.run->take_piece();
    const TrainerProcess::State now = t.run->now();
    const Bytes allocated = piece.peak.allocated.total();
    if (allocated > row.peak_allocated) {
      row.peak_allocated = allocated;
      row.at_peak_allocated = piece.peak.allocated;
    }
    row.peak_reserved = std::max(row.peak_reserved, piece.peak.reserved);
    row.peak_active = std::max(row.peak_active, piece.peak_active);
    Bytes reserved = std::max(piece.peak.reserved, allocated);
    // The allocator gave cached memory back and asked again: for a moment it wanted more than the card had.
    if (const std::int64_t retries = t.run->retries(); retries > t.retries) {
      t.retries = retries;
      reserved = std::max(reserved, t.room);
    }
    occupancy_.reach(slot, process_on_device(piece.peak.allocated, reserved, t.outside.now()));
    occupancy_.hold(slot, process_on_device(now.allocated, std::max(now.reserved, now.allocated.total()),
                                            t.outside.now()));
    host_.trainer(slot, piece.peak.host, now.host);
    if (const auto message = t.run->out_of_memory()) {
      row.out_of_memory = *message;
      failed_ = true;
    }
  }

  bool runs_inside(const std::string& name) const {
    const Engine* engine = job_.engine(name);
    return engine != nullptr &&
           (engine->kind == EngineKind::transformers || engine->kind == EngineKind::hybrid);
  }

  /// Every trainer gives its cached memory back.
  Status empty_caches(std::map<std::size_t, ProcessPhase>& rows) {
    Action empty;
    empty.verb = Verb::empty_cache;
    for (auto& [slot, trainer] : trainers_) {
      ProcessPhase& row = rows.at(slot);
      HEADROOM_TRY(trainer.run->act(empty, 0));
      account_for(trainer, slot, row);
      row.reserved_after_empty = trainer.run->now().reserved;
    }
    return {};
  }

  Status act_engine(RunningEngine& e, const Action& action, PhaseReport& report) {
    Breakdown others = occupancy_.now();
    others -= occupancy_.held(e.slot);
    HEADROOM_ASSIGN(const EngineProcess::Effect effect, e.state.act(action.verb, others.total()));
    if (const auto failure = e.state.failure()) {
      ProcessPhase& row = report.processes.emplace_back();
      row.process = e.name;
      row.roles = {e.engine->role};
      row.out_of_memory = *failure;
      failed_ = true;
      return {};
    }
    if (action.verb == Verb::generate)
      report.seconds += rollout_seconds(job_, *e.engine, e.state.account(), hardware_);
    if (machine_ != nullptr) {
      HEADROOM_ASSIGN(const bool held,
                      machine_->neighbour(e.name, effect.highest.total(), effect.after.total()));
      if (!held) {
        ProcessPhase& row = report.processes.emplace_back();
        row.process = e.name;
        row.roles = {e.engine->role};
        row.out_of_memory =
            fmt::format("the card has no room for the {} that it takes", format_gib(effect.highest.total()));
        failed_ = true;
      }
    }
    occupancy_.reach(e.slot, effect.highest);
    occupancy_.hold(e.slot, effect.after);
    host_.engine(e.slot, e.state.host());
    return {};
  }

  const Job& job_;
  const Hardware& hardware_;
  const MakeTrainer& make_trainer_;
  const Pool& pool_;
  std::int64_t rank_;
  Machine* machine_;
  NodeHost host_;
  Occupancy occupancy_;
  std::map<std::size_t, RunningTrainer> trainers_;
  std::vector<RunningEngine> engines_;
  bool failed_ = false;
};

}  // namespace

Result<Report> run_on_device(const Job& job, const Hardware& hardware, Fidelity fidelity) {
  return run_on_device(job, hardware, program_over(fidelity),
                       fidelity == Fidelity::every_allocation ? "simulator" : "closed_form");
}

Result<Report> run_on_device(const Job& job, const Hardware& hardware, Machine& machine) {
  return run_on_device(job, hardware, program_on(machine), "gpu", &machine);
}

Result<Report> run_on_device(const Job& job, const Hardware& hardware, const MakeTrainer& make_trainer,
                             std::string executor, Machine* machine) {
  HEADROOM_TRY(validate_job(job));
  Report report;
  report.title = job.name;
  report.executor = std::move(executor);
  for (const Pool& pool : job.pools) {
    const std::int64_t kinds = kinds_of_ranks(job, pool);
    for (std::int64_t kind = 0; kind < kinds; ++kind) {
      DeviceRun run(job, hardware, make_trainer, pool, kind * (pool.gpus() / kinds), machine);
      HEADROOM_TRY(run.prepare());
      HEADROOM_ASSIGN(DeviceReport device, run.execute());
      if (kind == 0)
        for (Warning& warning : run.warnings()) report.warnings.push_back(std::move(warning));
      if (!device.phases.empty()) report.devices.push_back(std::move(device));
      if (machine != nullptr) return report;
    }
  }
  return report;
}

}  // namespace headroom

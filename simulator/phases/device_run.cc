#include "simulator/phases/device_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "simulator/device/occupancy.h"
#include "simulator/device/process.h"
#include "simulator/engine/account.h"
#include "simulator/hardware/communicator.h"
#include "simulator/job/batching.h"
#include "simulator/memory/timed_memory.h"
#include "simulator/phases/node_host.h"
#include "simulator/phases/process_memory.h"
#include "simulator/phases/rollout_time.h"
#include "simulator/phases/trainer.h"

namespace headroom {
namespace {

using phases::Trainer;

/// A training process: its program, its memory, what lies outside.
struct TrainerProcess {
  const Process* process = nullptr;
  std::unique_ptr<ProcessMemory> memory;
  std::unique_ptr<TimedMemory> timed;
  std::unique_ptr<Trainer> program;
  OutsideAllocator outside;
};

/// An engine's process.
struct EngineProcess {
  const Process* process = nullptr;
  const Engine* engine = nullptr;
  engine::Account account;
  engine::Residency state = engine::Residency::absent;
};

/// One GPU of one pool.
class DeviceRun {
 public:
  DeviceRun(const Job& job, const Hardware& hardware, Fidelity fidelity, const Pool& pool)
      : job_(job), hardware_(hardware), fidelity_(fidelity), pool_(pool), host_(job, pool) {}

  Status prepare() {
    for (const Process& process : job_.processes) {
      if (process.pool != pool_.name) continue;
      HEADROOM_TRY(process.engine.empty() ? add_trainer(process) : add_engine(process));
    }
    return {};
  }

  Result<DeviceReport> execute() {
    DeviceReport out;
    out.pool = &pool_ == &job_.pools.front() ? "" : pool_.name;
    out.alike = pool_.gpus();
    for (const PhaseSpec& phase : job_.start) HEADROOM_TRY(run(phase, -1, out));
    for (int step = 0; step < job_.steps; ++step)
      for (const PhaseSpec& phase : job_.step)
        if (runs_in(phase, step, job_.steps)) HEADROOM_TRY(run(phase, step, out));
    return out;
  }

  std::vector<Warning> warnings() const {
    std::vector<Warning> out;
    for (const EngineProcess& e : engines_) {
      if (e.account.failure || !e.account.preempts()) continue;
      Warning warning;
      warning.code = "kv-preemption";
      warning.message = fmt::format(
          "engine {}: its KV cache holds {} sequences of full length at once, fewer than the {} that it is "
          "given: the "
          "rest wait or are computed again (slower, no failure)",
          e.engine->name, e.account.at_once, e.account.wanted);
      out.push_back(std::move(warning));
    }
    return out;
  }

 private:
  // --- Processes

  OutsideAllocator outside_of(const Process& process) const {
    OutsideAllocator out;
    out.context = hardware_.context;
    out.workspaces = hardware_.cublas_handle;
    if (process.communicators > 0)
      out.communicators = first_communicator_bytes(hardware_.nccl) +
                          process.communicators * communicator_bytes(hardware_.nccl, pool_.gpus());
    return out;
  }

  Status add_trainer(const Process& process) {
    TrainerProcess t;
    t.process = &process;
    t.outside = outside_of(process);
    const Bytes total = job_.device_memory > 0 ? job_.device_memory : hardware_.total_memory;
    HEADROOM_ASSIGN(t.memory, make_process_memory(fidelity_, process.allocator_settings, total));
    t.timed = std::make_unique<TimedMemory>(t.memory->memory(), hardware_, pool_.gpus_per_node);
    tape::DeviceTraits traits;
    traits.multiprocessors =
        hardware_.multiprocessors > 0 ? hardware_.multiprocessors : traits.multiprocessors;
    if (hardware_.cublas_workspace > 0) traits.cublas_workspace = hardware_.cublas_workspace;
    t.program = std::make_unique<Trainer>(job_, *t.timed, traits);
    t.program->repeat = &t.timed->repeat;
    const std::size_t index = occupancy_.add(process.name);
    occupancy_.hold(index, process_on_device({}, 0, t.outside));
    trainers_.emplace(index, std::move(t));
    return {};
  }

  Status add_engine(const Process& process) {
    EngineProcess e;
    e.process = &process;
    e.engine = job_.engine(process.engine);
    if (e.engine == nullptr)
      return fail(fmt::format("process {}: no engine is named {}", process.name, process.engine));
    engine_slot_.push_back(occupancy_.add(process.name));
    engines_.push_back(std::move(e));
    return {};
  }

  TrainerProcess* trainer_of(const std::string& role, std::size_t& slot) {
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
    for (auto& [slot, row] : rows) {
      if (row.roles.empty() && !row.out_of_memory) continue;
      finish(trainers_.at(slot), row);
      report.processes.push_back(std::move(row));
    }
    for (std::size_t i = 0; i < engines_.size(); ++i) add_row(engines_[i], report);
    out.phases.push_back(std::move(report));
    return {};
  }

  ProcessPhase begin(TrainerProcess& t) {
    ProcessPhase row;
    row.process = t.process->name;
    const ProcessMemory::State now = t.memory->now();
    row.allocated_start = now.allocated.total();
    row.reserved_start = now.reserved;
    row.n_allocs = -t.memory->allocations();
    row.peak_allocated = row.allocated_start;
    row.peak_reserved = row.reserved_start;
    row.at_peak_allocated = now.allocated;
    row.outside = t.outside.context + t.outside.communicators + t.outside.workspaces;
    t.memory->take_piece();
    return row;
  }

  void finish(const TrainerProcess& t, ProcessPhase& row) {
    const ProcessMemory::State now = t.memory->now();
    row.allocated_end = now.allocated.total();
    row.reserved_end = now.reserved;
    row.n_allocs += t.memory->allocations();
    row.segments = t.memory->segments();
    row.retries = t.memory->retries();
    row.inactive_split_end = t.memory->inactive_split();
    if (row.peak_reserved > 0)
      row.fragmentation_at_peak = static_cast<double>(row.peak_reserved - row.peak_allocated) /
                                  static_cast<double>(row.peak_reserved);
  }

  void add_row(const EngineProcess& e, PhaseReport& report) {
    if (e.state == engine::Residency::absent) return;
    ProcessPhase row;
    row.process = e.process->name;
    row.roles = {e.engine->role};
    const Breakdown held = engine::resident(e.account, e.state);
    row.outside = held[Component::context] + held[Component::communicators] + held[Component::engine_graphs];
    row.allocated_start = row.allocated_end = row.peak_allocated = held.total() - row.outside;
    row.reserved_start = row.reserved_end = row.peak_reserved = row.peak_active = row.peak_allocated;
    row.at_peak_allocated = held;
    for (const Component c : {Component::context, Component::communicators, Component::engine_graphs})
      row.at_peak_allocated[c] = 0;
    report.processes.push_back(std::move(row));
  }

  // --- Actions

  /// True when something of this device acted.
  Result<bool> act(const Action& action, int step, PhaseReport& report,
                   std::map<std::size_t, ProcessPhase>& rows) {
    if (!action.engine.empty()) {
      bool here = false;
      for (std::size_t i = 0; i < engines_.size(); ++i)
        if (engines_[i].engine->name == action.engine) {
          HEADROOM_TRY(act_engine(i, action, report));
          here = true;
        }
      if (action.verb != Verb::sync_weights || action.role.empty()) return here;
    }
    std::size_t slot = 0;
    TrainerProcess* t = trainer_of(action.role, slot);
    if (t == nullptr) return false;
    ProcessPhase& row = rows.at(slot);
    if (action.verb == Verb::expandable_on || action.verb == Verb::expandable_off) {
      t->memory->set_expandable(action.verb == Verb::expandable_on);
      return true;
    }
    if (action.verb == Verb::build && job_.role(action.role) != nullptr)
      host_.loading(*job_.role(action.role));
    HEADROOM_TRY(t->program->act(action, step));
    if (!action.role.empty() && std::find(row.roles.begin(), row.roles.end(), action.role) == row.roles.end())
      row.roles.push_back(action.role);
    account_for(*t, slot, row);
    report.seconds += t->timed->take_seconds();
    return true;
  }

  /// The piece of work that has just run, in the device's, the host's and the row's books.
  void account_for(TrainerProcess& t, std::size_t slot, ProcessPhase& row) {
    const ProcessMemory::Piece piece = t.memory->take_piece();
    const ProcessMemory::State now = t.memory->now();
    const Bytes allocated = piece.peak.allocated.total();
    if (allocated > row.peak_allocated) {
      row.peak_allocated = allocated;
      row.at_peak_allocated = piece.peak.allocated;
    }
    row.peak_reserved = std::max(row.peak_reserved, piece.peak.reserved);
    row.peak_active = std::max(row.peak_active, piece.peak_active);
    occupancy_.reach(
        slot, process_on_device(piece.peak.allocated, std::max(piece.peak.reserved, allocated), t.outside));
    occupancy_.hold(
        slot, process_on_device(now.allocated, std::max(now.reserved, now.allocated.total()), t.outside));
    host_.trainer(slot, piece.peak.host, now.host);
    if (const auto message = t.memory->out_of_memory()) {
      row.out_of_memory = *message;
      failed_ = true;
    }
  }

  Status act_engine(std::size_t index, const Action& action, PhaseReport& report) {
    EngineProcess& e = engines_[index];
    const std::size_t slot = engine_slot_[index];
    switch (action.verb) {
      case Verb::start_engine:
        HEADROOM_TRY(start(index, report));
        break;
      case Verb::wake_weights:
        e.state = engine::Residency::weights_only;
        break;
      case Verb::wake_kv:
        e.state = engine::Residency::awake;
        break;
      case Verb::sleep:
        e.state = engine::Residency::asleep;
        break;
      case Verb::generate:
        e.state = engine::Residency::awake;
        report.seconds += rollout_seconds(job_, *e.engine, e.account, hardware_);
        break;
      case Verb::score: {
        const engine::Residency before = e.state;
        occupancy_.reach(slot, engine::resident(e.account, engine::Residency::awake));
        e.state = before;
        break;
      }
      default:
        break;
    }
    occupancy_.hold(slot, engine::resident(e.account, e.state));
    host_.engine(slot, engine::host_resident(e.account, e.state));
    return {};
  }

  Status start(std::size_t index, PhaseReport& report) {
    EngineProcess& e = engines_[index];
    engine::Host host;
    host.total = job_.device_memory > 0 ? job_.device_memory : hardware_.total_memory;
    host.others = occupancy_.now().total();
    host.context = hardware_.context;
    engine::Work work;
    const std::int64_t replicas =
        std::max<std::int64_t>(1, pool_.gpus() / (e.engine->tensor * e.engine->pipeline * e.engine->data));
    work.sequences = ceil_div(job_.batch.sequences(), replicas);
    work.prompt = job_.batch.prompt_length;
    work.length = job_.batch.sequence_length();
    HEADROOM_ASSIGN(e.account, engine::account(*e.engine, host, work));
    e.state = engine::Residency::awake;
    if (e.account.failure) {
      ProcessPhase row;
      row.process = e.process->name;
      row.roles = {e.engine->role};
      row.out_of_memory = *e.account.failure;
      report.processes.push_back(std::move(row));
      failed_ = true;
      return {};
    }
    occupancy_.reach(engine_slot_[index], engine::resident(e.account, engine::Residency::starting));
    return {};
  }

  const Job& job_;
  const Hardware& hardware_;
  Fidelity fidelity_;
  const Pool& pool_;
  NodeHost host_;
  Occupancy occupancy_;
  std::map<std::size_t, TrainerProcess> trainers_;
  std::vector<EngineProcess> engines_;
  std::vector<std::size_t> engine_slot_;
  bool failed_ = false;
};

}  // namespace

Result<Report> run_on_device(const Job& job, const Hardware& hardware, Fidelity fidelity) {
  HEADROOM_TRY(validate_job(job));
  Report report;
  report.title = job.name;
  report.executor = fidelity == Fidelity::every_allocation ? "simulator" : "closed_form";
  for (const Pool& pool : job.pools) {
    DeviceRun run(job, hardware, fidelity, pool);
    HEADROOM_TRY(run.prepare());
    HEADROOM_ASSIGN(DeviceReport device, run.execute());
    for (Warning& warning : run.warnings()) report.warnings.push_back(std::move(warning));
    if (!device.phases.empty()) report.devices.push_back(std::move(device));
  }
  return report;
}

}  // namespace headroom

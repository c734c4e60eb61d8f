#include "simulator/phases/phase_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "simulator/device/process.h"
#include "simulator/engine/hybrid.h"
#include "simulator/job/batching.h"
#include "simulator/job/no_effect.h"
#include "simulator/job/standard_step.h"
#include "simulator/phases/rollout_time.h"
#include "simulator/phases/sync_time.h"
#include "simulator/tape/generate/sample.h"

namespace headroom {
namespace {

/// A pipeline's stage waits for the first micro-batch to come and for the last to go: with m micro-batches and
/// p stages, each cut into v parts, (p − 1) / (m v) of its own work. After: Narayanan et al., "Efficient
/// large-scale language model training on GPU clusters using Megatron-LM" (2021).
Seconds with_bubble(Seconds seconds, const Job& job, const Action& action) {
  const Role* role = job.role(action.role);
  const bool pass = action.verb == Verb::train || action.verb == Verb::forward;
  if (role == nullptr || !pass || role->parallel.pipeline <= 1) return seconds;
  const Pass which = action.verb == Verb::train ? Pass::train : Pass::forward;
  const std::int64_t count = micro_batches(job, *role, which, job.batch.sequence_length()).count;
  const auto parts = static_cast<double>(std::max<std::int64_t>(1, count) *
                                         std::max<std::int64_t>(1, role->parallel.virtual_pipeline));
  seconds[Spent::waiting] += seconds.total() * static_cast<double>(role->parallel.pipeline - 1) / parts;
  return seconds;
}

void spend(const Seconds& seconds, PhaseReport& report) {
  report.spent += seconds;
  report.seconds = report.spent.total();
}

/// Sums are exact all the same: the closed form draws them along a line.
void tell_stride(const Job& job, Report& report) {
  const std::int64_t stride = tape::token_stride(job.batch.response_length);
  const bool generates = std::any_of(job.engines.begin(), job.engines.end(), inside_trainer);
  if (stride == 1 || !generates || report.executor == "closed_form") return;
  report.assumptions.push_back(fmt::format(
      "of a response's {} tokens the trainer ran one in {}; its cache grew by {} at once", job.batch.response_length,
      stride, stride));
}

}  // namespace

PhaseInterpreter::PhaseInterpreter(const Job& job, const Hardware& hardware, const MakeTrainer& make_trainer,
                                   const Pool& pool, std::int64_t rank, Machine* machine)
    : job_(job),
      hardware_(hardware),
      make_trainer_(make_trainer),
      pool_(pool),
      rank_(rank),
      machine_(machine),
      implied_{.name = "trainer", .pool = pool.name, .roles = {}, .engine = {}, .allocator_settings = {}},
      host_(job, pool) {}

// --- Processes

Bytes PhaseInterpreter::total_memory() const {
  return job_.device_memory > 0 ? job_.device_memory : hardware_.total_memory;
}

Status PhaseInterpreter::prepare(bool leave_out_repetitions) {
  if (job_.processes.empty() && &pool_ == &job_.pools.front())
    return add_trainer(implied_, leave_out_repetitions);
  for (const Process& process : job_.processes) {
    if (process.pool != pool_.name) continue;
    // An engine can live inside a trainer's process: it has no context and no communicators of its own.
    const bool trains = process.engine.empty() || !process.roles.empty();
    if (trains) HEADROOM_TRY(add_trainer(process, leave_out_repetitions));
    // What a trainer's own program generates it allocates itself.
    if (!process.engine.empty() && !(trains && runs_inside(process.engine)))
      HEADROOM_TRY(add_engine(process, trains));
  }
  return {};
}

OutsideGrowth PhaseInterpreter::outside_of(const Process& process) const {
  std::vector<GroupUse> groups = megatron_groups(job_, process, pool_.gpus(), rank_);
  if (!groups.empty()) return OutsideGrowth(hardware_, std::move(groups));
  return OutsideGrowth(hardware_, process.communicators, {pool_.gpus(), pool_.nodes},
                       peers_of(job_, process, pool_.gpus(), rank_));
}

Status PhaseInterpreter::add_trainer(const Process& process, bool leave_out_repetitions) {
  if (machine_ != nullptr && !trainers_.empty())
    return fail(fmt::format("process {}: one training process can run on a real GPU, the job has several",
                            process.name));
  RunningTrainer t{.process = &process,
                   .run = {},
                   .outside = outside_of(process)};
  HEADROOM_ASSIGN(t.run, make_trainer_(job_, process, pool_, hardware_, rank_));
  t.run->leave_out_repetitions(leave_out_repetitions);
  const std::size_t slot = occupancy_.add(process.name);
  occupancy_.hold(slot, process_on_device({}, 0, t.outside.now()));
  trainers_.emplace(slot, std::move(t));
  return {};
}

Status PhaseInterpreter::add_engine(const Process& process, bool inside_trainer) {
  const Engine* engine = job_.engine(process.engine);
  if (engine == nullptr)
    return fail(fmt::format("process {}: no engine is named {}", process.name, process.engine));
  engines_.push_back({.name = inside_trainer ? engine->name : process.name,
                      .engine = engine,
                      .state = EngineProcess(job_, *engine, hardware_, inside_trainer),
                      .slot = occupancy_.add(inside_trainer ? engine->name : process.name)});
  return {};
}

PhaseInterpreter::RunningTrainer* PhaseInterpreter::trainer_of(const std::string& role, std::size_t& slot) {
  for (auto& [index, trainer] : trainers_) {
    const auto& roles = trainer.process->roles;
    if (role.empty() || roles.empty() || std::find(roles.begin(), roles.end(), role) != roles.end()) {
      slot = index;
      return &trainer;
    }
  }
  return nullptr;
}

bool PhaseInterpreter::runs_inside(const std::string& name) const {
  const Engine* engine = job_.engine(name);
  return engine != nullptr && inside_trainer(*engine);
}

std::vector<Warning> PhaseInterpreter::warnings() const {
  std::vector<Warning> out;
  for (const RunningEngine& e : engines_)
    if (const auto slow = e.state.slow()) {
      Warning& warning = out.emplace_back();
      warning.code = "kv-preemption";
      warning.message = *slow;
    }
  for (NoEffect& found : no_effect(job_)) {
    Warning& warning = out.emplace_back();
    warning.code = "no-effect";
    warning.message = std::move(found.message);
    warning.key = std::move(found.key);
  }
  return out;
}

std::vector<PhaseInterpreter::Trainer> PhaseInterpreter::trainers() const {
  std::vector<Trainer> out;
  for (const auto& [slot, t] : trainers_) out.push_back({t.process->name, t.run->peak_allocation()});
  return out;
}

std::vector<EngineReport> PhaseInterpreter::engines() const {
  std::vector<EngineReport> out;
  for (const RunningEngine& e : engines_)
    if (e.state.started() && !e.state.failure()) out.push_back(e.state.start_up());
  return out;
}

bool PhaseInterpreter::left_out_wrongly() const {
  return std::any_of(trainers_.begin(), trainers_.end(),
                     [](const auto& t) { return t.second.run->left_out_wrongly(); });
}

// --- Phases

Result<std::vector<PhaseReport>> PhaseInterpreter::execute() {
  for (const PhaseSpec& phase : job_.start) HEADROOM_TRY(run(phase, -1));
  for (int step = 0; step < job_.steps; ++step)
    for (const PhaseSpec& phase : job_.step)
      if (runs_in(phase, step, job_.steps)) HEADROOM_TRY(run(phase, step));
  return rows_.take();
}

Status PhaseInterpreter::run(const PhaseSpec& phase, int step) {
  if (failed_) return {};
  PhaseReport report;
  report.step = step;
  report.phase = phase.name.empty() ? name(phase.kind) : phase.name;
  if (machine_ != nullptr) HEADROOM_TRY(machine_->begin_phase());
  Rows rows = begin(phase, report.phase, step);
  bool acted = phase.actions.empty() && !trainers_.empty();
  for (const Action& action : phase.actions) {
    HEADROOM_ASSIGN(const bool here, act(action, step, report, rows));
    acted = acted || here;
    if (failed_) break;
  }
  Occupancy::Peak peak = occupancy_.take_peak();
  report.peak_device = peak.bytes.total();
  report.at_peak_device = std::move(peak.bytes);
  report.at_peak_host = host_.take_peak();
  report.peak_host = report.at_peak_host.total();
  for (auto& [slot, row] : rows) finish(trainers_.at(slot), row);
  if (phase.empties_cache && acted) HEADROOM_TRY(empty_caches(rows));
  if (phase.reported)
    for (auto& [slot, trainer] : trainers_) trainer.run->end_phase(report.phase);
  if (!acted) return {};
  for (auto& [slot, row] : rows) report.processes.push_back(std::move(row));
  for (const RunningEngine& e : engines_) add_row(e, report);
  PhaseReport* shown = rows_.add(phase, std::move(report), phase.reported || failed_);
  return machine_ != nullptr && shown != nullptr ? machine_->end_phase(*shown) : Status{};
}

PhaseInterpreter::Rows PhaseInterpreter::begin(const PhaseSpec& phase, const std::string& name, int step) {
  static_cast<void>(occupancy_.take_peak());
  Rows rows;
  for (auto& [slot, t] : trainers_) {
    ProcessPhase& row = rows[slot];
    static_cast<void>(t.run->take_piece());
    const TrainerProcess::Piece now = t.run->take_piece();
    row.process = t.process->name;
    row.allocated_start = now.peak.allocated.total();
    row.reserved_start = now.peak.reserved;
    row.n_allocs = -t.run->allocations();
    row.outside = t.outside.now().total();
    row.communicators = t.outside.now().communicators;
    restart(now, row);
    if (!phase.reported) continue;
    t.run->begin_phase(name, step);
    if (job_.phase_marker > 0) {
      t.run->mark(job_.phase_marker);
      account_for(t, slot, row);
    }
  }
  return rows;
}

/// Peaks count from what is there now.
void PhaseInterpreter::restart(const TrainerProcess::Piece& now, ProcessPhase& row) {
  row.peak_allocated = now.peak.allocated.total();
  row.peak_reserved = now.peak.reserved;
  row.peak_active = now.peak_active;
  row.at_peak_allocated = now.peak.allocated;
}

void PhaseInterpreter::finish(const RunningTrainer& t, ProcessPhase& row) {
  const TrainerProcess::State now = t.run->now();
  row.allocated_end = now.allocated.total();
  row.reserved_end = now.reserved;
  row.n_allocs += t.run->allocations();
  row.segments = t.run->segments();
  row.retries = t.run->retries();
  row.inactive_split_end = t.run->inactive_split();
  row.fragmentation_at_peak = fragmentation(row);
}

void PhaseInterpreter::add_row(const RunningEngine& e, PhaseReport& report) const {
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

/// Every trainer gives its cached memory back.
Status PhaseInterpreter::empty_caches(Rows& rows, const std::string& engine) {
  Action empty;
  empty.verb = Verb::empty_cache;
  for (auto& [slot, trainer] : trainers_) {
    if (!engine.empty() && trainer.process->engine != engine) continue;
    ProcessPhase& row = rows.at(slot);
    HEADROOM_TRY(trainer.run->act(empty, 0));
    static_cast<void>(trainer.run->take_seconds());  // a phase's time ends before
    account_for(trainer, slot, row);
    row.reserved_after_empty = trainer.run->now().reserved;
  }
  return {};
}

// --- Actions

Result<bool> PhaseInterpreter::act(const Action& action, int step, PhaseReport& report, Rows& rows) {
  if (!action.engine.empty()) {
    if (action.verb == Verb::start_engine) HEADROOM_TRY(empty_caches(rows, action.engine));
    HEADROOM_ASSIGN(const bool here, act_engines(action, report));
    if (here && action.verb == Verb::sync_weights && !holds(action.role) && !runs_inside(action.engine))
      return receive(action, report);
    // What an engine inside the trainer's process generates, the trainer's program runs; and it gathers the
    // weights that any engine is sent, here or on other GPUs.
    if (action.verb != Verb::sync_weights && (here || !runs_inside(action.engine))) return here;
    if (action.role.empty()) return here;
  }
  std::size_t slot = 0;
  RunningTrainer* t = trainer_of(action.role, slot);
  if (t == nullptr) return false;
  HEADROOM_TRY(act_trainer(*t, slot, action, step, rows.at(slot)));
  spend(with_bubble(t->run->take_seconds(), job_, action), report);
  if (const Role* role = job_.role(action.role); role != nullptr && action.verb == Verb::sync_weights)
    if (const Engine* engine = job_.engine(action.engine))
      spend(sync_seconds(job_, *role, *engine, hardware_), report);
  return true;
}

bool PhaseInterpreter::holds(const std::string& role) {
  std::size_t slot = 0;
  return trainer_of(role, slot) != nullptr;
}

/// Weights come from trainers on other GPUs: the engine does nothing else meanwhile.
bool PhaseInterpreter::receive(const Action& action, PhaseReport& report) const {
  const Role* role = job_.role(action.role);
  const Engine* engine = job_.engine(action.engine);
  if (role == nullptr || engine == nullptr) return false;
  Seconds spent;
  spent[Spent::waiting] = sync_seconds(job_, *role, *engine, hardware_).total();
  spend(spent, report);
  return true;
}

Status PhaseInterpreter::act_trainer(RunningTrainer& t, std::size_t slot, const Action& action, int step,
                                     ProcessPhase& row) {
  const Role* role = job_.role(action.role);
  if (!action.role.empty() && std::find(row.roles.begin(), row.roles.end(), action.role) == row.roles.end())
    row.roles.push_back(action.role);
  if (action.verb == Verb::reset_peaks) {
    restart(t.run->take_piece(), row);
    return {};
  }
  if (action.verb == Verb::build && role != nullptr) host_.loading(*role);
  t.outside.begin(action, role);
  const Engine* engine = action.verb == Verb::generate ? job_.engine(action.engine) : nullptr;
  if (engine != nullptr) t.outside.hold_generation(hybrid_workspace(*engine));
  row.outside = std::max(row.outside, t.outside.now().total());
  row.communicators = t.outside.now().communicators;
  const Bytes others = occupancy_.now().total() - occupancy_.held(slot).total() + t.outside.now().total();
  t.room = total_memory() - others;
  t.run->set_others(others);
  HEADROOM_TRY(t.run->act(action, step));
  account_for(t, slot, row, action.verb == Verb::save && action.gathered ? role : nullptr);
  if (engine == nullptr || engine->sleep_level == 0) return {};
  t.outside.hold_generation(0);  // a hybrid engine that gives its workspace back
  hold(t, slot);
  return {};
}

void PhaseInterpreter::hold(const RunningTrainer& t, std::size_t slot) {
  const TrainerProcess::State now = t.run->now();
  occupancy_.hold(
      slot, process_on_device(now.allocated, std::max(now.reserved, now.allocated.total()), t.outside.now()));
}

/// The piece of work that has just run, in the device's, the host's and the row's books.
void PhaseInterpreter::account_for(RunningTrainer& t, std::size_t slot, ProcessPhase& row,
                                   const Role* gathered) {
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
  hold(t, slot);
  host_.trainer(slot, piece.peak.host, now.host, gathered);
  if (const auto message = t.run->out_of_memory()) {
    row.out_of_memory = *message;
    failed_ = true;
  }
}

Result<bool> PhaseInterpreter::act_engines(const Action& action, PhaseReport& report) {
  bool here = false;
  for (RunningEngine& e : engines_)
    if (e.engine->name == action.engine) {
      HEADROOM_TRY(act_engine(e, action, report));
      here = true;
    }
  return here;
}

Status PhaseInterpreter::act_engine(RunningEngine& e, const Action& action, PhaseReport& report) {
  Breakdown others = occupancy_.now();
  others -= occupancy_.held(e.slot);
  HEADROOM_ASSIGN(const EngineProcess::Effect effect, e.state.act(action.verb, others.total()));
  const auto failure = e.state.failure();
  if (failure && (!goes_on_ || action.verb == Verb::start_engine)) engine_failed(e, *failure, report);
  if (failed_) return {};
  if (action.verb == Verb::generate && !failure)
    spend(rollout_seconds(job_, *e.engine, e.state.account(), hardware_), report);
  if (machine_ != nullptr) {
    HEADROOM_ASSIGN(const bool held,
                    machine_->neighbour(e.name, effect.highest.total(), effect.after.total()));
    if (!held)
      engine_failed(
          e, fmt::format("the card has no room for the {} that it takes", format_gib(effect.highest.total())),
          report);
  }
  occupancy_.reach(e.slot, effect.highest);
  occupancy_.hold(e.slot, effect.after);
  host_.engine(e.slot, e.state.host());
  return {};
}

void PhaseInterpreter::engine_failed(const RunningEngine& e, std::string why, PhaseReport& report) {
  ProcessPhase& row = report.processes.emplace_back();
  row.process = e.name;
  row.roles = {e.engine->role};
  row.out_of_memory = std::move(why);
  failed_ = !goes_on_;
}

Result<GpuRun> run_gpu(const Job& job, const Hardware& hardware, const MakeTrainer& make_trainer,
                       const GpuKind& kind, GpuRunOptions options) {
  GpuRun out;
  out.report.pool = kind.pool == &job.pools.front() ? "" : kind.pool->name;
  out.report.device = kind.rank;
  out.report.alike = kind.alike;
  PhaseInterpreter run(job, hardware, make_trainer, *kind.pool, kind.rank + kind.followed, options.machine);
  if (options.goes_on_without_engines) run.go_on_without_engines();
  HEADROOM_TRY(run.prepare(options.leave_out_repetitions));
  HEADROOM_ASSIGN(out.report.phases, run.execute());
  if (run.left_out_wrongly()) {
    options.leave_out_repetitions = false;
    return run_gpu(job, hardware, make_trainer, kind, options);
  }
  out.warnings = run.warnings();
  out.report.engines = run.engines();
  out.trainers = run.trainers();
  return out;
}

Result<std::vector<GpuRun>> run_gpus(const Job& job, const Hardware& hardware,
                                     const MakeTrainer& make_trainer, std::span<const GpuKind> kinds,
                                     GpuRunOptions options) {
  std::vector<GpuRun> runs;
  for (const GpuKind& kind : kinds) {
    HEADROOM_ASSIGN(GpuRun run, run_gpu(job, hardware, make_trainer, kind, options));
    runs.push_back(std::move(run));
  }
  return runs;
}

Report report_of(const Job& job, std::string executor, std::vector<GpuRun> runs) {
  Report report;
  report.title = job.name;
  report.framework = job.framework;
  report.executor = std::move(executor);
  tell_stride(job, report);
  const std::string* pool = nullptr;
  for (GpuRun& run : runs) {
    // All kinds of a pool have the same engines.
    if (pool == nullptr || *pool != run.report.pool)
      std::move(run.warnings.begin(), run.warnings.end(), std::back_inserter(report.warnings));
    pool = &run.report.pool;
  }
  for (GpuRun& run : runs)
    if (!run.report.phases.empty()) report.devices.push_back(std::move(run.report));
  return report;
}

}  // namespace headroom

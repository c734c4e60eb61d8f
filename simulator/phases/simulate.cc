#include "simulator/phases/simulate.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "simulator/allocator/virtual_device.h"
#include "simulator/memory/simulated_memory.h"
#include "simulator/phases/run_recorder.h"
#include "simulator/phases/trainer.h"

namespace headroom {
namespace {

/// One run of the job.
class Run {
 public:
  Run(const Job& job, const SimulateOptions& options, const allocator::AllocatorSettings& settings)
      : job_(job),
        machine_(options.machine),
        leave_out_repetitions_(options.leave_out_repetitions),
        outside_(options.machine != nullptr ? std::nullopt : options.outside),
        device_(options.total_memory > 0 ? options.total_memory : std::numeric_limits<Bytes>::max() / 4),
        memory_(settings, machine_ != nullptr ? machine_->device() : device_),
        working_(machine_ != nullptr ? machine_->attach(memory_) : memory_),
        recording_(&working_) {
    const bool recorded = options.events != nullptr || options.snapshot != nullptr;
    if (!job.processes.empty() && job.processes.front().communicators > 0) device_.expect_collectives();
    trainer_.emplace(job, recorded ? recording_ : working_, options.traits);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    if (machine_ == nullptr) return;
    // What a machine gave goes back to it: first the tensors, then the segments they lay in.
    trainer_.reset();
    memory_.empty_cache();
    machine_->detach();
  }

  Status execute(std::vector<PhaseReport>& rows) {
    memory_.leave_out_repetitions(leave_out_repetitions_);
    for (const PhaseSpec& phase : job_.start) HEADROOM_TRY(run(phase, -1, rows));
    for (int step = 0; step < job_.steps; ++step)
      for (const PhaseSpec& phase : job_.step)
        if (runs_in(phase, step, job_.steps)) HEADROOM_TRY(run(phase, step, rows));
    return {};
  }

  /// From here on the run is recorded as a snapshot. `recorder` outlives it.
  void record(RunRecorder& recorder) {
    recorder_ = &recorder;
    memory_.allocator().set_observer(&recorder.observer());
    recording_.before_allocations(
        [this](Label label) { recorder_->before_allocation(label, trainer_->tape().modules()); });
  }

  SimulatedMemory& memory() { return memory_; }
  const RecordingMemory& recording() const { return recording_; }
  phases::Trainer& trainer() { return *trainer_; }

 private:
  /// After a failed allocation the process is gone: later phases do not happen.
  Status run(const PhaseSpec& phase, int step, std::vector<PhaseReport>& rows) {
    if (memory_.out_of_memory()) return {};
    if (machine_ != nullptr) HEADROOM_TRY(machine_->begin_phase());
    ProcessPhase row = begin();
    if (recorder_ != nullptr && phase.reported) recorder_->begin_phase(name_of(phase));
    if (phase.reported) trainer_->mark(job_.phase_marker);
    for (const Action& action : phase.actions) {
      if (!action.role.empty() &&
          std::find(row.roles.begin(), row.roles.end(), action.role) == row.roles.end())
        row.roles.push_back(action.role);
      if (outside_) outside_->begin(action);
      if (action.verb == Verb::reset_peaks)
        memory_.reset_peaks();
      else
        HEADROOM_TRY(trainer_->act(action, step));
    }
    end(row);
    if (phase.empties_cache) {
      trainer_->tape().memory().empty_cache();
      row.reserved_after_empty = memory_.allocator().reserved();
    }
    if (recorder_ != nullptr && phase.reported) recorder_->end_phase(name_of(phase));
    PhaseReport out = report(phase, step, std::move(row));
    if (!phase.within.empty()) cover(phase.within, step, out);
    if (!phase.reported) return {};
    PhaseReport& shown = place(std::move(out), rows);
    return machine_ != nullptr ? machine_->end_phase(shown) : Status{};
  }

  /// A row of its own, or one with the earlier pieces of the same name, and with what ran within it.
  PhaseReport& place(PhaseReport row, std::vector<PhaseReport>& rows) {
    const auto covered = covered_.find({row.step, row.phase});
    if (covered != covered_.end()) {
      row = joined(std::move(covered->second), std::move(row));
      covered_.erase(covered);
    }
    for (PhaseReport& earlier : rows)
      if (earlier.step == row.step && earlier.phase == row.phase) {
        earlier = joined(std::move(earlier), std::move(row));
        return earlier;
      }
    rows.push_back(std::move(row));
    return rows.back();
  }

  void cover(const std::string& name, int step, const PhaseReport& inner) {
    PhaseReport copy = inner;
    copy.phase = name;
    const auto found = covered_.find({step, name});
    if (found == covered_.end())
      covered_.emplace(std::pair{step, name}, std::move(copy));
    else
      found->second = joined(std::move(found->second), std::move(copy));
  }

  /// Two pieces of one row, one after the other: the higher peaks, the first's beginning, the last's end.
  PhaseReport joined(PhaseReport first, PhaseReport last) const {
    ProcessPhase& a = first.processes.front();
    ProcessPhase& b = last.processes.front();
    b.allocated_start = a.allocated_start;
    b.reserved_start = a.reserved_start;
    b.n_allocs += a.n_allocs;
    b.peak_active = std::max(a.peak_active, b.peak_active);
    for (const std::string& role : a.roles)
      if (std::find(b.roles.begin(), b.roles.end(), role) == b.roles.end()) b.roles.push_back(role);
    if (a.peak_allocated >= b.peak_allocated) {
      b.peak_allocated = a.peak_allocated;
      b.at_peak_allocated = a.at_peak_allocated;
    }
    b.peak_reserved = std::max(a.peak_reserved, b.peak_reserved);
    if (first.peak_host > last.peak_host) {
      last.peak_host = first.peak_host;
      last.at_peak_host = first.at_peak_host;
    }
    return with_device(std::move(last));
  }

  /// The device's view of its one process, with what is outside the allocator by now.
  PhaseReport with_device(PhaseReport row) const {
    ProcessPhase& process = row.processes.front();
    if (process.peak_reserved > 0)
      process.fragmentation_at_peak = static_cast<double>(process.peak_reserved - process.peak_allocated) /
                                      static_cast<double>(process.peak_reserved);
    const OutsideAllocator outside = outside_ ? outside_->now() : OutsideAllocator{};
    process.outside = outside.total();
    process.communicators = outside.communicators;
    row.at_peak_device = process_on_device(process.at_peak_allocated, process.peak_reserved, outside);
    row.peak_device = row.at_peak_device.total();
    return row;
  }

  ProcessPhase begin() {
    memory_.reset_peaks();
    ProcessPhase row;
    row.process = job_.processes.empty() ? "trainer" : job_.processes.front().name;
    row.allocated_start = memory_.allocator().allocated();
    row.reserved_start = memory_.allocator().reserved();
    row.n_allocs = -memory_.allocator().statistics().all.allocation.allocated;
    return row;
  }

  void end(ProcessPhase& row) {
    const allocator::CachingAllocator& a = memory_.allocator();
    const allocator::MemoryStatistics statistics = a.statistics();
    row.peak_allocated = a.peak_allocated();
    row.peak_reserved = a.peak_reserved();
    row.peak_active = a.peak_active();
    row.allocated_end = a.allocated();
    row.reserved_end = a.reserved();
    row.inactive_split_end = a.inactive_split();
    row.n_allocs += statistics.all.allocation.allocated;
    row.segments = statistics.all.segment.current;
    row.retries = statistics.num_alloc_retries;
    row.at_peak_allocated = memory_.at_peak();
    row.out_of_memory = memory_.out_of_memory();
  }

  PhaseReport report(const PhaseSpec& phase, int step, ProcessPhase row) {
    PhaseReport out;
    out.step = step;
    out.phase = name_of(phase);
    out.at_peak_host = memory_.host_at_peak();
    out.peak_host = out.at_peak_host.total();
    out.processes.push_back(std::move(row));
    return with_device(std::move(out));
  }

  static std::string name_of(const PhaseSpec& phase) {
    return phase.name.empty() ? std::string(name(phase.kind)) : phase.name;
  }

  const Job& job_;
  Machine* machine_;
  bool leave_out_repetitions_;
  std::optional<OutsideGrowth> outside_;
  allocator::VirtualDevice device_;
  SimulatedMemory memory_;
  Memory& working_;  ///< what the program calls: `memory_`, or the machine over it
  RecordingMemory recording_;
  RunRecorder* recorder_ = nullptr;
  std::optional<phases::Trainer> trainer_;
  std::map<std::pair<int, std::string>, PhaseReport> covered_;  ///< peaks of phases within a later row
};

/// Blocks of equal label together, the largest first.
std::vector<Holder> holders(Run& run, std::size_t count) {
  std::map<std::tuple<std::uint32_t, std::uint16_t, Component>, Holder> sums;
  for (const SimulatedMemory::Holding& holding : run.memory().watched()) {
    Holder& sum = sums[{holding.label.module, holding.label.operation, holding.label.component}];
    sum.bytes += holding.bytes;
    ++sum.blocks;
  }
  std::vector<Holder> out;
  for (auto& [key, sum] : sums) {
    sum.module = run.trainer().tape().modules().text(std::get<0>(key));
    sum.operation = tape::operation_text(std::get<1>(key));
    sum.component = std::get<2>(key);
    out.push_back(std::move(sum));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  if (out.size() > count) out.resize(count);
  return out;
}

}  // namespace

Result<Report> simulate(const Job& job, const SimulateOptions& options) {
  HEADROOM_TRY(validate_job(job));
  const std::string conf = job.processes.empty() ? "" : job.processes.front().allocator_settings;
  HEADROOM_ASSIGN(const allocator::AllocatorSettings settings, allocator::parse_allocator_settings(conf));
  Report report;
  report.title = job.name;
  report.framework = job.framework;
  report.executor = options.machine != nullptr ? "gpu" : "simulator";
  report.assumptions = job.assumptions;
  DeviceReport device;
  std::int64_t peak = 0;
  {
    RunRecorder recorder;
    Run run(job, options, settings);
    if (options.snapshot != nullptr) run.record(recorder);
    HEADROOM_TRY(run.execute(device.phases));
    if (run.memory().left_out_wrongly()) {
      SimulateOptions everything = options;
      everything.leave_out_repetitions = false;
      return simulate(job, everything);
    }
    if (options.events != nullptr) {
      options.events->events = run.recording().events();
      const tape::ModuleNames& names = run.trainer().tape().modules();
      for (std::uint32_t i = 0; i < names.size(); ++i) options.events->modules.push_back(names.text(i));
    }
    if (options.snapshot != nullptr) *options.snapshot = recorder.finish(run.memory().allocator(), conf);
    peak = run.memory().peak_allocation();
  }
  if (options.holders) {
    Run again(job, options, settings);
    again.memory().watch(peak);
    std::vector<PhaseReport> rows;
    HEADROOM_TRY(again.execute(rows));
    device.holders = holders(again, static_cast<std::size_t>(options.holder_count));
  }
  device.alike = job.pools.empty() ? 1 : job.pools.front().gpus();
  report.devices.push_back(std::move(device));
  return report;
}

SimulateOptions options_for(const Job& job, const Hardware& hardware) {
  SimulateOptions out;
  out.total_memory = job.device_memory > 0 ? job.device_memory : hardware.total_memory;
  out.traits = phases::traits_of(hardware);
  const std::int64_t communicators = job.processes.empty() ? 0 : job.processes.front().communicators;
  out.outside.emplace(hardware, communicators, job.pools.empty() ? 1 : job.pools.front().gpus());
  return out;
}

Executor simulating_executor() {
  return [](const Job& job, const Hardware& hardware) { return simulate(job, options_for(job, hardware)); };
}

}  // namespace headroom

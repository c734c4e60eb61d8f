#include "simulator/phases/trainer_process.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "simulator/allocator/simulated_settings.h"
#include "simulator/allocator/virtual_device.h"
#include "simulator/hardware/communicator.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/memory/simulated_memory.h"
#include "simulator/job/batching.h"
#include "simulator/memory/timed_memory.h"
#include "simulator/phases/run_recorder.h"
#include "simulator/time/rates.h"
#include "simulator/trainer/trainer.h"

namespace headroom {
namespace {

/// Live blocks added up; reserved is the highest sum since the cache was emptied, with blocks that were freed
/// and wait for another stream.
class CountedBlocks {
 public:
  explicit CountedBlocks(bool runs_ahead) : memory_(false, runs_ahead) {}
  Memory& memory() { return memory_; }
  TrainerProcess::State now() const {
    return {
        .allocated = memory_.components(), .reserved = memory_.reserved(), .host = memory_.host_components()};
  }
  TrainerProcess::Piece take_piece() {
    TrainerProcess::Piece piece{.peak = {.allocated = memory_.at_peak(),
                                         .reserved = memory_.reserved_peak(),
                                         .host = memory_.host_at_peak()},
                                .peak_active = memory_.active_peak()};
    memory_.reset_peak();
    return piece;
  }
  void make_communicator(std::span<const Bytes>) {}
  void set_others(Bytes) {}
  void set_expandable(bool) {}
  RunRecorder* recorder() { return nullptr; }
  void leave_out_repetitions(bool leave_out) { memory_.leave_out_repetitions(leave_out); }
  bool left_out_wrongly() const { return false; }
  std::optional<std::string> out_of_memory() const { return std::nullopt; }
  std::int64_t allocations() const { return memory_.allocations(); }
  std::int64_t peak_allocation() const { return 0; }
  std::int64_t segments() const { return 0; }
  std::int64_t retries() const { return 0; }
  Bytes inactive_split() const { return 0; }
  static constexpr bool kHasSegments = false;
  void follow(const allocator::Clock&) {}
  DriverUse driver_use() const { return {}; }

 private:
  CountingMemory memory_;
};

/// The simulated caching allocator, over the model of a device or a real machine.
class SimulatedBlocks {
 public:
  /// `limit`: of the card; 0: none. With a recorder, programs call what it returns.
  SimulatedBlocks(const allocator::AllocatorSettings& settings, Bytes limit, bool runs_ahead,
                  Machine* machine = nullptr, RunRecorder* recorder = nullptr)
      : settings_(settings),
        machine_(machine),
        recorder_(recorder),
        device_(limit > 0 ? limit : std::numeric_limits<Bytes>::max() / 4),
        memory_(settings, machine != nullptr ? machine->device() : device_),
        working_(machine != nullptr    ? machine->attach(memory_)
                 : recorder != nullptr ? recorder->attach(memory_)
                                       : memory_) {
    if (runs_ahead) device_.run_ahead();
  }
  SimulatedBlocks(const SimulatedBlocks&) = delete;
  SimulatedBlocks& operator=(const SimulatedBlocks&) = delete;
  ~SimulatedBlocks() {
    if (machine_ == nullptr) return;
    // The tensors are gone; the segments that they lay in go back to the machine.
    working_.empty_cache();
    machine_->detach();
  }

  Memory& memory() { return working_; }
  TrainerProcess::State now() const {
    return {.allocated = memory_.live(), .reserved = allocator().reserved(), .host = memory_.host()};
  }
  TrainerProcess::Piece take_piece() {
    TrainerProcess::Piece piece{.peak = {.allocated = memory_.at_peak(),
                                         .reserved = allocator().peak_reserved(),
                                         .host = memory_.host_at_peak()},
                                .peak_active = allocator().peak_active()};
    memory_.reset_peaks();
    return piece;
  }
  /// A communicator takes memory beside the allocator.
  void make_communicator(std::span<const Bytes> allocations) {
    if (machine_ != nullptr) return machine_->make_communicator();
    for (const Bytes bytes : allocations) device_.take_addresses(bytes);
  }
  void set_others(Bytes bytes) {
    allocator::CardMemory& card = device_.card();
    card.give(others_);
    others_ = std::min(bytes, card.free());
    static_cast<void>(card.take(others_));
  }
  void set_expandable(bool on) {
    settings_.expandable_segments = on;
    memory_.allocator().change_settings(settings_);
    if (recorder_ != nullptr) recorder_->switched_expandable(on);
  }
  RunRecorder* recorder() { return recorder_; }
  void follow(const allocator::Clock& clock) { device_.follow(clock); }
  void leave_out_repetitions(bool leave_out) { memory_.leave_out_repetitions(leave_out); }
  bool left_out_wrongly() const { return memory_.left_out_wrongly(); }
  std::optional<std::string> out_of_memory() const { return memory_.out_of_memory(); }
  std::int64_t allocations() const { return memory_.allocations(); }
  std::int64_t peak_allocation() const { return memory_.peak_allocation(); }
  std::int64_t segments() const { return allocator().statistics().all.segment.current; }
  std::int64_t retries() const { return allocator().statistics().num_alloc_retries; }
  Bytes inactive_split() const { return allocator().inactive_split(); }
  static constexpr bool kHasSegments = true;
  DriverUse driver_use() const {
    return {.reserved = allocator().reserved(),
            .gets = allocator().device_gets(),
            .returns = allocator().device_returns(),
            .maps = settings_.expandable_segments};
  }

 private:
  const allocator::CachingAllocator& allocator() const { return memory_.allocator(); }

  allocator::AllocatorSettings settings_;
  Bytes others_ = 0;
  Machine* machine_;
  RunRecorder* recorder_;
  allocator::VirtualDevice device_;
  SimulatedMemory memory_;
  Memory& working_;  ///< what programs call: `memory_`, or the machine or the recorder over it
};

/// The process's program over `Blocks`.
template <typename Blocks>
class ProgramProcess final : public TrainerProcess {
 public:
  template <typename... Arguments>
  ProgramProcess(const Job& job, const Pool& pool, const Hardware& hardware, std::int64_t rank,
                 Arguments&&... arguments)
      : blocks_(std::forward<Arguments>(arguments)...),
        timed_(blocks_.memory(), hardware, pool.gpus_per_node,
               Blocks::kHasSegments ? std::function<DriverUse()>([this] { return blocks_.driver_use(); })
                                    : std::function<DriverUse()>()),
        program_(job, timed_, trainer::traits_of(hardware), rank) {
    if (follows_clock(job)) blocks_.follow(timed_.clock());
    program_.repeat = &timed_.repeat;
    program_.filled = &timed_.filled;
    timed_.records_history = job.records_history;
    program_.unused = [this] {
      const State state = blocks_.now();
      return std::max<Bytes>(state.reserved - state.allocated.total(), 0);
    };
    program_.communicator_made = [this, made = communicator_allocations(hardware.nccl, {pool.gpus(), pool.nodes})] {
      blocks_.make_communicator(made);
    };
    if (RunRecorder* recorder = blocks_.recorder()) recorder->set_modules(program_.tape().modules());
  }

  /// What is executed stands for itself alone.
  void count_executed_alone() { program_.repeat = nullptr; }
  Status act(const Action& action, int step) override {
    if (action.verb == Verb::expandable_on || action.verb == Verb::expandable_off) {
      blocks_.set_expandable(action.verb == Verb::expandable_on);
      return {};
    }
    HEADROOM_TRY(program_.act(action, step));
    timed_.synchronize();  // frameworks read metrics and times back at each phase's end
    return {};
  }
  void set_others(Bytes bytes) override { blocks_.set_others(bytes); }
  void begin_phase(const std::string& name, int step) override {
    if (RunRecorder* recorder = blocks_.recorder()) recorder->begin_phase(name, step);
  }
  void end_phase(const std::string& name) override {
    if (RunRecorder* recorder = blocks_.recorder()) recorder->end_phase(name);
  }
  void mark(Bytes bytes) override { program_.mark(bytes); }
  void leave_out_repetitions(bool leave_out) override { blocks_.leave_out_repetitions(leave_out); }
  bool left_out_wrongly() const override { return blocks_.left_out_wrongly(); }
  State now() const override { return blocks_.now(); }
  Piece take_piece() override { return blocks_.take_piece(); }
  Seconds take_seconds() override { return timed_.take_seconds(); }
  std::optional<std::string> out_of_memory() const override { return blocks_.out_of_memory(); }
  std::int64_t allocations() const override { return blocks_.allocations(); }
  std::int64_t peak_allocation() const override { return blocks_.peak_allocation(); }
  std::int64_t segments() const override { return blocks_.segments(); }
  std::int64_t retries() const override { return blocks_.retries(); }
  Bytes inactive_split() const override { return blocks_.inactive_split(); }

 private:
  Blocks blocks_;
  TimedMemory timed_;
  trainer::Trainer program_;
};

}  // namespace

namespace {

/// Dispatches of a decoder layer's forward: kernels, hooks, views.
constexpr double kLayerDispatches = 100;

/// Whether a layer's products keep the device longer than the layer keeps the host.
bool outlasts_host(const Job& job, const Role& role, const Hardware& hardware) {
  if (role.model == nullptr || hardware.matrix.of(role.precision.compute) <= 0) return true;
  const Decoder& decoder = role.model->decoder;
  const std::int64_t tables = (decoder.tied_embeddings ? 1 : 2) * decoder.vocabulary * decoder.hidden;
  const std::int64_t layer = (role.model->parameters() - tables) / std::max<std::int64_t>(1, decoder.layers);
  const std::int64_t tokens =
      micro_batches(job, role, Pass::forward, job.batch.sequence_length()).tokens_per_rank;
  const double device = matrix_product_seconds(hardware, tokens, layer / std::max<std::int64_t>(1, decoder.hidden),
                                               decoder.hidden, role.precision.compute);
  return device > kLayerDispatches * hardware.latencies.operation;
}

}  // namespace

bool runs_ahead(const Job& job, const Hardware& hardware) {
  return std::any_of(job.roles.begin(), job.roles.end(), [&](const Role& role) {
    if (role.sharding.kind != ShardingKind::fsdp1) return false;
    return shard_group_size(job, role) > 1 || outlasts_host(job, role, hardware);
  });
}

bool follows_clock(const Job& job) {
  return std::any_of(job.roles.begin(), job.roles.end(), [](const Role& role) {
    return role.sharding.kind == ShardingKind::megatron && role.parallel.virtual_pipeline > 1;
  });
}

namespace {

/// Over the simulated allocator of a card, or of the machine's.
MakeTrainer program_simulated(Machine* machine, RecorderOf recorder_of, bool executed_alone = false) {
  return [machine, executed_alone, recorder_of = std::move(recorder_of)](
             const Job& job, const Process& process, const Pool& pool, const Hardware& hardware,
             std::int64_t rank) -> Result<std::unique_ptr<TrainerProcess>> {
    HEADROOM_ASSIGN(const allocator::AllocatorSettings settings,
                    allocator::parse_simulated_settings(process.allocator_settings));
    const Bytes card = job.device_memory > 0 ? job.device_memory : hardware.total_memory;
    auto out = std::make_unique<ProgramProcess<SimulatedBlocks>>(
        job, pool, hardware, rank, settings, card, runs_ahead(job, hardware), machine,
        recorder_of ? recorder_of(process) : nullptr);
    if (executed_alone) out->count_executed_alone();
    return out;
  };
}

}  // namespace

MakeTrainer program_on(Machine& machine) {
  return program_simulated(&machine, {});
}

MakeTrainer program_recorded(RecorderOf recorder_of) {
  return program_simulated(nullptr, std::move(recorder_of));
}

MakeTrainer program_over(Fidelity fidelity) {
  if (fidelity != Fidelity::live_bytes)
    return program_simulated(nullptr, {}, fidelity == Fidelity::executed_work);
  return [](const Job& job, const Process& process, const Pool& pool, const Hardware& hardware,
            std::int64_t rank) -> Result<std::unique_ptr<TrainerProcess>> {
    HEADROOM_TRY(allocator::parse_simulated_settings(process.allocator_settings));
    return std::make_unique<ProgramProcess<CountedBlocks>>(job, pool, hardware, rank, runs_ahead(job, hardware));
  };
}

}  // namespace headroom

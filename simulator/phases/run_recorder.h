#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "simulator/memory/recording_memory.h"
#include "simulator/memory/simulated_memory.h"
#include "simulator/phases/fragmentation.h"
#include "simulator/replay/snapshot_recorder.h"
#include "simulator/report/report.h"
#include "simulator/tape/core/names.h"

namespace headroom {

/// The complete stream of a training process, with the module paths that its labels index. Operations are
/// `tape::operation_text`.
struct EventStream {
  struct Phase {
    std::string name;        ///< empty: the phase before ends and none begins
    std::size_t begins = 0;  ///< before the event of this index
  };
  std::string process;      ///< its name
  std::string settings;     ///< PYTORCH_CUDA_ALLOC_CONF that it ran under
  std::int64_t device = 0;  ///< global index of its GPU
  std::vector<MemoryEvent> events;
  std::vector<Phase> phases;  ///< in order
  std::vector<std::string> modules;
};

/// Looks on as a training process runs over the simulated allocator: its stream of allocations, a snapshot as
/// PyTorch records a real run, what lives at one moment; or, alone, whose its free memory is. In the snapshot an allocation's stack is, from the
/// innermost frame: its operation in its module, the modules around that one, and what the bytes are for.
/// Phases are annotations.
class RunRecorder {
 public:
  struct Wanted {
    bool stream = false, snapshot = false;
    bool fragmentation = false;
    std::int64_t holders_at = 0;  ///< number of the allocation (from 1) whose moment `holders` shows; 0: none
  };
  explicit RunRecorder(const Wanted& wanted) : wanted_(wanted) {}
  RunRecorder(const RunRecorder&) = delete;
  RunRecorder& operator=(const RunRecorder&) = delete;

  /// Once, before the process's first allocation: the Memory that its program is to call in place of
  /// `memory`. `modules` are the program's, set before that allocation. What follows reads both, so it is
  /// called while the process exists.
  Memory& attach(SimulatedMemory& memory);
  void set_modules(const tape::ModuleNames& modules) { modules_ = &modules; }

  void begin_phase(const std::string& name, int step) {
    if (wanted_.fragmentation) return fragmentation_.begin_phase(name, step);
    mark(name);
    snapshot_.begin_phase(name);
  }
  void end_phase(const std::string& name) {
    if (wanted_.fragmentation) return fragmentation_.end_phase();
    mark({});
    snapshot_.end_phase(name);
  }

  /// The process switched expandable segments.
  void switched_expandable(bool on) {
    if (recording_) recording_->switched_expandable(on);
  }

  std::vector<MemoryEvent> events() const;
  const std::vector<EventStream::Phase>& phases() const { return phases_; }
  std::vector<std::string> modules() const;
  /// The recorder is empty afterwards.
  replay::Snapshot snapshot(std::string_view conf) { return snapshot_.finish(memory_->allocator(), conf); }
  /// Phase by phase; it is empty afterwards.
  std::vector<PhaseFragmentation> fragmentation() { return fragmentation_.take(); }
  /// Blocks of equal label together, the largest first, at most `count`.
  std::vector<Holder> holders(std::size_t count) const;

 private:
  void mark(const std::string& phase) {
    if (recording_) phases_.push_back({phase, recording_->events().size()});
  }
  /// The allocator's trace, which also tells the stream when blocks that other streams used are free.
  class Trace final : public replay::SnapshotRecorder {
   public:
    explicit Trace(std::optional<RecordingMemory>& stream) : stream_(stream) {}
    void alloc(allocator::BlockId id, allocator::Address address, Bytes requested,
               allocator::Stream stream) override;
    void free_completed(allocator::BlockId id, allocator::Address address, Bytes requested,
                        allocator::Stream stream) override;

   private:
    std::optional<RecordingMemory>& stream_;
    std::unordered_map<allocator::BlockId, std::uint32_t> events_;  ///< by block: the stream's id
  };

  void before_allocation(Label label);
  replay::StackId stack_of(Label label, const std::string& module);

  Wanted wanted_;
  SimulatedMemory* memory_ = nullptr;
  const tape::ModuleNames* modules_ = nullptr;
  std::optional<RecordingMemory> recording_;
  std::vector<EventStream::Phase> phases_;
  Trace snapshot_{recording_};
  FragmentationRecorder fragmentation_;
  std::unordered_map<std::uint64_t, replay::StackId> stacks_;  ///< by label
};

}  // namespace headroom

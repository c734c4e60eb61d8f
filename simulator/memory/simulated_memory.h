#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/pinned_allocator.h"
#include "simulator/memory/memory.h"
#include "simulator/memory/memory_watcher.h"
#include "simulator/memory/repeated_segments.h"

namespace headroom {

/// A Memory over the simulated caching allocator of one process, with what every byte is for. Bytes are
/// counted as blocks (rounded), so components sum to `allocated`.
///
/// After the first out-of-memory nothing more happens: the program runs on without effect.
class SimulatedMemory final : public Memory, private Repetition {
 public:
  SimulatedMemory(const allocator::AllocatorSettings& settings, allocator::Device& device)
      : device_(device), allocator_(settings, device), repeated_(allocator_) {}

  Block allocate(Bytes requested, Stream stream, Label label) override;
  void free(Block block) override;
  void record_stream(Block block, Stream stream) override;
  void relabel(Block block, Label label) override;
  HostBlock allocate_host(Bytes requested, HostKind kind, Component component) override;
  void free_host(HostBlock block) override;
  void empty_cache() override;
  void synchronize() override { device_.synchronize(); }
  StreamMark record_event(Stream stream) override { return device_.record_event(stream); }
  void wait_event(StreamMark mark) override {
    device_.wait_event(mark);
    static_cast<void>(device_.event_done(mark));  // a device may use the mark again
  }
  Repetition* repetition() override { return leaves_out_ && watched_ == 0 ? this : nullptr; }
  /// False: repetitions are executed too.
  void leave_out_repetitions(bool leave_out) { leaves_out_ = leave_out; }
  /// Something between left-out segments took away what they had been proved to find (the device ran full and
  /// cached segments were released): this run's figures are void, run again with every repetition executed.
  bool left_out_wrongly() const { return left_out_wrongly_; }

  allocator::CachingAllocator& allocator() { return allocator_; }
  const allocator::CachingAllocator& allocator() const { return allocator_; }
  const Breakdown& live() const { return live_; }
  /// By component, at the first moment of the highest allocated value since `reset_peaks`.
  const Breakdown& at_peak() const { return at_peak_; }
  Bytes peak_allocated() const { return peak_; }
  /// Host memory in use and its highest value since `reset_peaks`.
  Breakdown host() const;
  const Breakdown& host_at_peak() const { return host_at_peak_; }
  /// torch.cuda.reset_peak_memory_stats().
  void reset_peaks();
  /// The allocator's message of the first failure.
  std::optional<std::string> out_of_memory() const;

  /// `watcher`, which outlives this, is told of what happens; null: nobody.
  void set_watcher(MemoryWatcher* watcher) { watcher_ = watcher; }
  /// Of a block that lives.
  Label label(allocator::BlockId id) const { return labels_[id]; }

  /// What lives at the moment of allocation number `at` (counted from 1 as `allocations()` does): taken in a
  /// second run of the same program.
  void watch(std::int64_t at) { watched_ = at; }
  std::int64_t allocations() const { return allocations_; }
  /// The allocation at which the highest allocated value since the start was reached.
  std::int64_t peak_allocation() const { return highest_at_; }
  struct Holding {
    Label label;
    Bytes bytes = 0;
  };
  const std::vector<Holding>& watched() const { return holdings_; }

 private:
  struct HostEntry {
    HostBlock pinned = kNoHostBlock;
    Bytes bytes = 0;
    Component component = Component::other;
    bool used = false;
  };
  void rise_host();
  void begin() override { repeated_.begin(live_); }
  void pause() override { repeated_.pause(live_); }
  void resume() override { repeated_.resume(live_); }
  bool closed() override { return !failed_ && repeated_.closed(live_); }
  void stop() override { repeated_.stop(live_); }
  void apply(std::size_t segment) override;

  allocator::Device& device_;
  allocator::CachingAllocator allocator_;
  PinnedAllocator pinned_;
  std::vector<Label> labels_;  ///< by block
  std::vector<bool> is_live_;  ///< by block, for `watch`
  std::vector<HostEntry> host_entries_;
  std::vector<std::uint32_t> unused_host_;
  Breakdown live_, at_peak_, pageable_, host_at_peak_;
  Bytes peak_ = 0, host_peak_ = 0, highest_ = 0;
  std::int64_t allocations_ = 0, watched_ = 0, highest_at_ = 0;
  std::vector<Holding> holdings_;
  MemoryWatcher* watcher_ = nullptr;
  bool failed_ = false, leaves_out_ = true, left_out_wrongly_ = false;
  RepeatedSegments repeated_;
};

}  // namespace headroom

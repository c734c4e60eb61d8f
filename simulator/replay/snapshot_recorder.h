#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/replay/snapshot.h"

namespace headroom::replay {

/// Records a simulated allocator as PyTorch records a real one: give it to the allocator as its observer, say
/// what is running, and finish with a snapshot that write_snapshot, analyse_device and stream_of take.
///
/// One microsecond passes with every event, so that events, and phases between them, are in order. Takes 32
/// bytes an event.
class SnapshotRecorder : public allocator::Observer {
 public:
  explicit SnapshotRecorder(std::int64_t device = 0);

  struct FrameText {
    std::string_view name, file;
    std::uint32_t line = 0;
  };
  /// A stack, innermost frame first; equal ones are one.
  StackId stack(std::span<const FrameText> frames);
  /// The stack of the allocations and segments from here on. Frees carry their allocation's.
  void set_stack(StackId stack) { stack_ = stack; }

  /// Phases nest.
  void begin_phase(std::string_view name);
  void end_phase(std::string_view name);

  /// The history and the allocator's blocks now. The recorder is empty afterwards.
  Snapshot finish(const allocator::CachingAllocator& allocator, std::string_view conf);

  void segment_alloc(allocator::Address address, Bytes size, allocator::Stream stream) override;
  void segment_free(allocator::Address address, Bytes size, allocator::Stream stream) override;
  void segment_map(allocator::Address address, Bytes size, allocator::Stream stream) override;
  void segment_unmap(allocator::Address address, Bytes size, allocator::Stream stream) override;
  void alloc(allocator::BlockId id, allocator::Address address, Bytes requested,
             allocator::Stream stream) override;
  void free_requested(allocator::BlockId id, allocator::Address address, Bytes requested,
                      allocator::Stream stream) override;
  void free_completed(allocator::BlockId id, allocator::Address address, Bytes requested,
                      allocator::Stream stream) override;
  void out_of_memory(const allocator::OutOfMemory& facts) override;

 private:
  void record(TraceAction action, std::int64_t address, Bytes size, allocator::Stream stream, StackId stack);
  void add_segment(const allocator::SegmentView& view, std::size_t first, std::size_t last);
  /// 0 for blocks of before the recording.
  StackId stack_of(allocator::BlockId id) const {
    return id < stack_of_block_.size() ? stack_of_block_[id] : 0;
  }

  std::int64_t device_, time_us_ = 0;
  Snapshot snapshot_;
  StackId stack_ = 0;
  std::vector<StackId> stack_of_block_;  ///< by block id
};

}  // namespace headroom::replay

#include "simulator/replay/snapshot_recorder.h"

#include <algorithm>

namespace headroom::replay {
namespace {

using allocator::Address;
using allocator::BlockState;
using allocator::SegmentView;
using allocator::Stream;

SnapshotBlockState state_of(BlockState state) {
  switch (state) {
    case BlockState::allocated:
      return SnapshotBlockState::allocated;
    case BlockState::pending:
      return SnapshotBlockState::pending_free;
    default:
      return SnapshotBlockState::inactive;
  }
}

}  // namespace

SnapshotRecorder::SnapshotRecorder(std::int64_t device) : device_(device) {}

StackId SnapshotRecorder::stack(std::span<const FrameText> frames) {
  std::vector<std::uint32_t> ids;
  for (const FrameText& frame : frames)
    ids.push_back(snapshot_.stacks.add_frame(
        {snapshot_.strings.intern(frame.name), snapshot_.strings.intern(frame.file), frame.line}));
  return snapshot_.stacks.add_stack(ids);
}

void SnapshotRecorder::begin_phase(std::string_view name) {
  snapshot_.annotations.push_back({std::string(name), true, device_, ++time_us_});
}

void SnapshotRecorder::end_phase(std::string_view name) {
  snapshot_.annotations.push_back({std::string(name), false, device_, ++time_us_});
}

/// Streams are contexts by index, so that a stream's context is found without a search.
void SnapshotRecorder::record(TraceAction action, std::int64_t address, Bytes size, Stream stream,
                              StackId stack) {
  while (snapshot_.contexts.size() <= stream)
    snapshot_.contexts.push_back({static_cast<std::int64_t>(snapshot_.contexts.size()), std::nullopt});
  snapshot_.events.push_back({address, size, ++time_us_, stack, static_cast<std::uint16_t>(stream), action});
}

void SnapshotRecorder::segment_alloc(Address address, Bytes size, Stream stream) {
  record(TraceAction::segment_alloc, address, size, stream, stack_);
}
void SnapshotRecorder::segment_free(Address address, Bytes size, Stream stream) {
  record(TraceAction::segment_free, address, size, stream, 0);
}
void SnapshotRecorder::segment_map(Address address, Bytes size, Stream stream) {
  record(TraceAction::segment_map, address, size, stream, stack_);
}
void SnapshotRecorder::segment_unmap(Address address, Bytes size, Stream stream) {
  record(TraceAction::segment_unmap, address, size, stream, 0);
}

void SnapshotRecorder::alloc(allocator::BlockId id, Address address, Bytes requested, Stream stream) {
  if (id >= stack_of_block_.size())
    stack_of_block_.resize(std::max<std::size_t>(id + 1, stack_of_block_.size() * 2));
  stack_of_block_[id] = stack_;
  record(TraceAction::alloc, address, requested, stream, stack_);
}

void SnapshotRecorder::free_requested(allocator::BlockId id, Address address, Bytes requested,
                                      Stream stream) {
  record(TraceAction::free_requested, address, requested, stream, stack_of(id));
}

void SnapshotRecorder::free_completed(allocator::BlockId id, Address address, Bytes requested,
                                      Stream stream) {
  record(TraceAction::free_completed, address, requested, stream, stack_of(id));
}

void SnapshotRecorder::out_of_memory(const allocator::OutOfMemory& facts) {
  record(TraceAction::oom, facts.device_free, facts.rounded, facts.stream, stack_);
}

/// Blocks [first, last) of a segment: all of a native one, one mapped run of an expandable one.
void SnapshotRecorder::add_segment(const SegmentView& view, std::size_t first, std::size_t last) {
  SnapshotSegment segment;
  segment.device = device_;
  segment.address = view.blocks[first].address;
  segment.stream = view.stream;
  segment.pool = {0, view.pool};
  segment.small = view.small;
  segment.expandable = view.expandable;
  for (std::size_t i = first; i < last; ++i) {
    const SegmentView::BlockView& block = view.blocks[i];
    const SnapshotBlockState state = state_of(block.state);
    const bool in_use = state != SnapshotBlockState::inactive;
    segment.blocks.push_back(
        {block.address, block.size, block.requested, in_use ? stack_of(block.id) : 0, state});
    segment.size += block.size;
  }
  snapshot_.segments.push_back(std::move(segment));
}

Snapshot SnapshotRecorder::finish(const allocator::CachingAllocator& allocator, std::string_view conf) {
  for (const SegmentView& view : allocator.segments()) {
    for (std::size_t i = 0; i < view.blocks.size();) {
      std::size_t last = i;
      while (last < view.blocks.size() && view.blocks[last].state != BlockState::unmapped) ++last;
      if (last > i) add_segment(view, i, last);
      i = last + 1;
    }
  }
  std::ranges::sort(snapshot_.segments, {}, &SnapshotSegment::address);
  const allocator::AllocatorSettings& settings = allocator.settings();
  SnapshotSettings& written = snapshot_.settings;
  written.conf = conf;
  if (settings.max_split_size != allocator::kUnlimited) written.max_split_size = settings.max_split_size;
  written.garbage_collection_threshold = settings.garbage_collection_threshold;
  written.expandable_segments = settings.expandable_segments;
  written.roundup_power2_divisions = settings.roundup_power2_divisions;
  snapshot_.traces.assign(static_cast<std::size_t>(device_) + 1, {0, 0});
  snapshot_.traces.back() = {0, snapshot_.events.size()};
  stack_of_block_.clear();
  return std::exchange(snapshot_, {});
}

}  // namespace headroom::replay

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "simulator/replay/pickle_reader.h"
#include "simulator/replay/snapshot.h"

namespace headroom::replay {

/// The kinds of dict in a snapshot, told apart by their keys.
enum SnapshotRecordKind : std::uint8_t {
  kNoRecord = 0,
  kEventRecord,       ///< has `action`
  kFrameRecord,       ///< has `filename` and `line`
  kBlockRecord,       ///< has `state` and `size`
  kSegmentRecord,     ///< has `blocks`
  kAnnotationRecord,  ///< has `stage` and `time_us`
};

/// Turns the dicts of a snapshot into its typed parts while the pickle is read: events, frames and stacks go
/// straight to the snapshot, blocks and segments wait until the segments' list is known.
class SnapshotRecords : public PickleRecords {
 public:
  /// `heap` is the reader's; its first strings become the keys.
  SnapshotRecords(PickleHeap& heap, Snapshot& snapshot);

  Result<PickleRecord> fold(PickleHeap& heap, std::span<const PickleValue> items) override;
  std::size_t memory() const override;

  const SnapshotSegment& segment(std::uint32_t index) const { return segments_[index]; }
  SnapshotSegment& segment(std::uint32_t index) { return segments_[index]; }
  const Annotation& annotation(std::uint32_t index) const { return annotations_[index]; }

 private:
  struct Fields;
  Result<PickleRecord> fold_event(PickleHeap& heap, Fields& fields);
  Result<PickleRecord> fold_frame(PickleHeap& heap, Fields& fields);
  Result<PickleRecord> fold_block(PickleHeap& heap, Fields& fields);
  Result<PickleRecord> fold_segment(PickleHeap& heap, Fields& fields);
  Result<PickleRecord> fold_annotation(PickleHeap& heap, Fields& fields);
  Result<StackId> stack_of(PickleHeap& heap, const Fields& fields);
  Result<std::uint16_t> context_of(const PickleHeap& heap, const Fields& fields);
  Status fill_blocks(PickleHeap& heap, PickleValue list, SnapshotSegment& segment);

  Snapshot& snapshot_;
  std::map<std::pair<std::int64_t, std::optional<PoolKey>>, std::uint16_t> context_ids_;
  std::uint16_t last_context_ = 0;
  ChunkedVector<SnapshotBlock> blocks_;
  std::deque<SnapshotSegment> segments_;
  std::size_t segment_blocks_ = 0;
  std::deque<Annotation> annotations_;
  std::vector<std::uint32_t> frames_scratch_;
};

}  // namespace headroom::replay

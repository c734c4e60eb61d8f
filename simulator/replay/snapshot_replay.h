#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/allocator/settings.h"
#include "simulator/replay/snapshot.h"
#include "simulator/replay/snapshot_heap.h"

namespace headroom::replay {

/// A block that was in use before the first recorded event.
struct StartBlock {
  std::int64_t address = 0;
  Bytes requested = 0;
  std::optional<Bytes> exact;  ///< its size, where the snapshot still shows the block
  StackId stack = 0;
  bool pending = false;
};

struct StartSegment {
  std::int64_t address = 0;
  Bytes size = 0;
  SnapshotHeap::Home home;
};

/// One device's history made complete: what its first event found, and what the file cannot tell.
struct SnapshotHistory {
  std::size_t device = 0;
  std::size_t first = 0, count = 0;  ///< events of the snapshot
  std::vector<StartSegment> segments;
  std::vector<StartBlock> blocks;        ///< by address
  std::vector<std::int64_t> streams{0};  ///< raw handles by Home::stream
  std::vector<PoolKey> pools{{0, 0}};    ///< by Home::pool
  std::vector<std::uint16_t> stream_of_context;
  bool has_free_requested = false, has_free_completed = false, has_segment_events = false;
  /// Sentences on what is missing and what was assumed instead.
  std::vector<std::string> missing;

  std::int64_t unmeasured_blocks = 0;  ///< at the start; may be up to 1 MiB larger than assumed
};

/// Reconstructs the state before the first event of a device from the segments at the end and the events
/// between.
///
/// Blocks freed in the history but not allocated in it were in use at its start, as were blocks of the
/// segments that it never allocated; segments likewise. A block's size is its request rounded, or the room up
/// to the next block where that is at most 1 MiB more in a large native segment: the allocator leaves no
/// smaller hole there. Not recoverable: what was allocated and freed before, earlier peaks and counters.
///
/// Errors name the event: a free of an address that is neither allocated nor in any segment, a second free,
/// an allocation over a live one.
Result<SnapshotHistory> complete_history(const Snapshot& snapshot, std::size_t device);

/// The option string of the settings at the dump: the recorded one where it is understood, else one made of
/// the other values of `allocator_settings`.
std::string conf_of(const SnapshotSettings& settings);
allocator::AllocatorSettings settings_of(const Snapshot& snapshot);

/// Executes a completed history event by event.
class SnapshotReplay {
 public:
  /// Both outlive the replay.
  SnapshotReplay(const Snapshot& snapshot, const SnapshotHistory& history,
                 const allocator::AllocatorSettings& settings);

  /// The state before the first event.
  Status start();
  /// Event `index`, counted from the history's first.
  Status step(std::size_t index);

  const SnapshotHeap& heap() const { return heap_; }

 private:
  SnapshotHeap::Home home_of(const TraceEvent& event) const;

  const Snapshot& snapshot_;
  const SnapshotHistory& history_;
  SnapshotHeap heap_;
  std::vector<std::pair<std::int64_t, std::size_t>> final_segments_;  ///< by address
};

}  // namespace headroom::replay

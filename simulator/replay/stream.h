#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "simulator/replay/chunked_vector.h"
#include "simulator/replay/snapshot.h"
#include "simulator/replay/snapshot_replay.h"

namespace headroom::replay {

/// What one process asked of one device's caching allocator, in order: enough to run it again under other
/// settings.
struct StreamEvent {
  enum class Kind : std::uint8_t {
    allocate,
    free_requested,  ///< dropped, but other streams still use it; `free` follows when they are done
    free,
    record_stream,  ///< the block is also in use on `stream`: its free waits for that stream's work
    empty_cache,
    phase,  ///< the current phase ends; phase `id` begins, kNoPhase: none
    expandable,  ///< the process switches expandable segments on (`id` 1) or off (0)
    // What the recorded allocator did on the way: for comparison, never executed.
    segment_alloc,
    segment_free,
    segment_map,
    segment_unmap,
  };

  Bytes bytes = 0;                    ///< asked for; of segment events: real
  std::uint32_t id = 0;               ///< allocations count up from 0; of a phase: into phases
  std::uint32_t label = 0xFFFFFFFFu;  ///< into labels; kNoLabel
  std::uint32_t stream = 0;           ///< index; 0 is the default stream
  std::uint16_t pool = 0;             ///< index; 0 is the default pool
  Kind kind = Kind::allocate;
};
static_assert(sizeof(StreamEvent) == 24);

inline constexpr std::uint32_t kNoLabel = 0xFFFFFFFFu;
inline constexpr std::uint32_t kNoPhase = 0xFFFFFFFFu;

struct AllocationStream {
  std::string name;
  std::string settings;  ///< option string it was recorded under
  ChunkedVector<StreamEvent> events;
  std::vector<std::string> labels, phases;
  std::uint32_t allocations = 0;  ///< ids are below
  std::uint32_t streams = 1, pools = 1;
  /// The first events allocate what was in use before the recording began.
  std::size_t initial = 0;
  std::vector<std::string> notes;  ///< what was assumed, for people

  bool has_segment_events() const;
};

/// A device's completed history as a stream. Blocks of its start come first, by address. A run of released
/// segments is an empty_cache when its stack says so; without stacks, when no new segment follows at once
/// (that would be a retry).
AllocationStream stream_of(const Snapshot& snapshot, const SnapshotHistory& history);

/// Marks the runs of released segments that empty_cache made, by inserting it before them: those whose
/// `known` says so, else those after which no segment is obtained at once.
enum class ReleaseCause : std::uint8_t { unknown, empty_cache, allocator };
ChunkedVector<StreamEvent> with_cache_emptying(const ChunkedVector<StreamEvent>& events,
                                               const std::vector<ReleaseCause>& known);

/// Checks a stream event by event: frees of unknown or freed allocations, sizes below 0, ids out of order.
/// The error's key names the event's index.
Status check_stream(const AllocationStream& stream);

/// The highest reserved memory that the recorded segment events add up to; nothing without such events.
std::optional<Bytes> recorded_peak_reserved(const AllocationStream& stream);

}  // namespace headroom::replay

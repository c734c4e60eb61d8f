#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/base/bytes.h"
#include "simulator/replay/chunked_vector.h"
#include "simulator/replay/pickle_heap.h"

namespace headroom::replay {

/// A memory snapshot as torch.cuda.memory._dump_snapshot writes it: the segments and blocks at the moment of
/// the dump, and each device's history of allocator events before it. Format: docs/REPLAY.md.

/// What happened, in the words of PyTorch's trace entries.
enum class TraceAction : std::uint8_t {
  alloc,           ///< size: what the program asked for
  free_requested,  ///< the program dropped the block
  free_completed,  ///< the block is free again
  segment_alloc,   ///< a native segment was obtained; size: real bytes
  segment_free,
  segment_map,  ///< an expandable segment grew; address: of the new part
  segment_unmap,
  oom,       ///< size: rounded; no address: device_free
  snapshot,  ///< a snapshot was taken
  other,     ///< an action of another version: ignored
};
inline constexpr std::size_t kTraceActions = 10;
std::string_view name(TraceAction action);

/// Id of a stack in StackTable; 0: none recorded.
using StackId = std::uint32_t;

/// One stack frame; strings by id.
struct Frame {
  std::uint32_t name = 0, file = 0;
  std::uint32_t line = 0;
  friend bool operator==(const Frame&, const Frame&) = default;
};

/// Frames and stacks once each, by content. Frames of a stack are innermost first.
class StackTable {
 public:
  StackTable();
  std::uint32_t add_frame(const Frame& frame);
  StackId add_stack(std::span<const std::uint32_t> frames);

  const Frame& frame(std::uint32_t id) const { return frames_[id]; }
  std::span<const std::uint32_t> stack(StackId id) const {
    return std::span(items_).subspan(stacks_[id].first, stacks_[id].second);
  }
  std::size_t size() const { return stacks_.size(); }  ///< ids are below this
  std::size_t frame_count() const { return frames_.size(); }
  std::size_t memory() const;

 private:
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> items_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> stacks_;  ///< first and count in items_
  std::vector<std::uint32_t> frame_slots_, stack_slots_;         ///< open addressing; id + 1
};

/// A private pool's id pair; (0, 0) is the default pool.
using PoolKey = std::pair<std::int64_t, std::int64_t>;

/// Stream and pool of an event. Events name one by index, since there are few.
struct TraceContext {
  std::int64_t stream = 0;      ///< raw handle; 0: the default stream
  std::optional<PoolKey> pool;  ///< where the version writes it
  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

struct TraceEvent {
  std::int64_t address = 0;  ///< oom: free bytes that the driver reported
  Bytes size = 0;
  std::int64_t time_us = 0;  ///< since 1970
  StackId stack = 0;
  std::uint16_t context = 0;  ///< into Snapshot::contexts
  TraceAction action = TraceAction::other;
};
static_assert(sizeof(TraceEvent) == 32);

enum class SnapshotBlockState : std::uint8_t { allocated, pending_free, inactive };

struct SnapshotBlock {
  std::int64_t address = 0;
  Bytes size = 0;
  Bytes requested = 0;  ///< of a free block: a leftover without meaning
  StackId stack = 0;    ///< of the allocation
  SnapshotBlockState state = SnapshotBlockState::inactive;
};

struct SnapshotSegment {
  std::int64_t device = 0;
  std::int64_t address = 0;
  Bytes size = 0;
  std::int64_t stream = 0;  ///< raw handle
  PoolKey pool;
  bool small = false;       ///< of the small pool
  bool expandable = false;  ///< one mapped run of an expandable segment
  StackId stack = 0;
  std::vector<SnapshotBlock> blocks;  ///< in address order, without gaps
};

/// A record_function scope's begin or end.
struct Annotation {
  std::string name;
  bool start = false;
  std::int64_t device = 0;
  std::int64_t time_us = 0;
};

/// The `allocator_settings` of the file; what it lacks has PyTorch's default.
struct SnapshotSettings {
  std::string conf;  ///< the option string last parsed
  std::optional<Bytes> max_split_size;
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  std::array<int, 16> roundup_power2_divisions{};
};

struct Snapshot {
  StringTable strings;
  StackTable stacks;
  std::vector<TraceContext> contexts;
  std::vector<SnapshotSegment> segments;
  ChunkedVector<TraceEvent> events;
  /// Device i's history is events[traces[i].first … + second).
  std::vector<std::pair<std::size_t, std::size_t>> traces;
  SnapshotSettings settings;
  std::vector<Annotation> annotations;
};

/// `FILE:LINE NAME` of a frame.
std::string frame_text(const Snapshot& snapshot, std::uint32_t frame);

}  // namespace headroom::replay

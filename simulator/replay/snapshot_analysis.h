#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/replay/snapshot.h"
#include "simulator/replay/snapshot_replay.h"

namespace headroom::replay {

/// A device's memory at one moment of its history, in bytes as memory_stats counts them.
struct Moment {
  /// After this event of the history; -1: before the first.
  std::int64_t event = -1;
  std::int64_t time_us = 0;
  std::string phase;  ///< the outermost annotated scope; empty: none
  Bytes allocated = 0, active = 0, reserved = 0, inactive_split = 0;
  std::int64_t blocks = 0;  ///< in use
};

/// Who holds memory: all live blocks whose stacks agree in their site.
struct Holder {
  /// The innermost frame outside installed packages and compiled code, else the innermost one; empty: no
  /// stack.
  std::optional<std::uint32_t> site;
  StackId stack = 0;  ///< of the largest block
  Bytes bytes = 0;
  std::int64_t blocks = 0;
  std::int64_t unrecorded = 0;  ///< of these, in use before the history began
};

/// The free memory inside reserved when the reserved peak was reached.
struct Fragmentation {
  Bytes free = 0;            ///< reserved - active
  Bytes inactive_split = 0;  ///< of it, free parts of partly used native segments
  Bytes whole_segments = 0;  ///< of it, segments without a block in use: empty_cache would release them
  Bytes largest = 0;         ///< the largest free block
  std::int64_t free_blocks = 0;
  /// The allocation that made reserved grow to its peak; 0 when the history does not show it. What was free
  /// then could not serve it: blocks of its own pool and stream were each too small, others belong to another
  /// pool, half or stream.
  Bytes request = 0;
  Bytes too_small = 0, elsewhere = 0;
};

/// A block in a nearly empty segment.
struct PinningBlock {
  Bytes size = 0;
  StackId stack = 0;
  std::int64_t born = -1;            ///< event; -1: before the history
  std::optional<std::int64_t> died;  ///< event of its free; none: never in this history
};

/// A segment at the reserved peak of which less than a quarter is in use, by at least one long-lived block:
/// one that lives for at least a quarter of the history, or to its end.
struct PinnedSegment {
  std::int64_t address = 0;
  Bytes size = 0, used = 0;
  std::vector<PinningBlock> blocks;  ///< largest first
};

/// A segment, or a mapped run of an expandable one, at the reserved peak.
struct PeakSegment {
  struct Part {
    Bytes size = 0;
    bool free = false;
    StackId stack = 0;  ///< of what holds it
  };
  std::int64_t address = 0;
  Bytes size = 0;
  bool small = false, expandable = false;
  std::vector<Part> parts;  ///< by address
};

/// One annotated scope, not inside another.
struct PhaseUse {
  std::string name;
  std::int64_t first = 0, last = 0;  ///< events [first, last)
  Bytes peak_allocated = 0, peak_reserved = 0, allocated_end = 0, reserved_end = 0;
};

struct OomEvent {
  std::int64_t event = 0;
  Bytes size = 0, device_free = 0, allocated = 0, reserved = 0;
  StackId stack = 0;
};

struct DeviceAnalysis {
  SnapshotHistory history;
  std::array<std::int64_t, kTraceActions> actions{};  ///< events by action
  Moment start, end, peak_allocated, peak_reserved;
  Bytes peak_active = 0;
  Fragmentation fragmentation;
  std::vector<Holder> holders;        ///< at the allocated peak, largest first
  std::vector<PinnedSegment> pinned;  ///< most wasted first
  std::vector<PeakSegment> segments;  ///< at the reserved peak, by address
  std::vector<PhaseUse> phases;
  std::vector<OomEvent> ooms;
  std::int64_t homeless = 0;  ///< allocations outside every known segment
};

/// Replays a device's history. Two passes over the events; memory is that of the live blocks.
Result<DeviceAnalysis> analyse_device(const Snapshot& snapshot, std::size_t device);

/// The frame by which a stack's memory is attributed; see Holder::site.
std::optional<std::uint32_t> site_of(const Snapshot& snapshot, StackId stack);

/// The outermost annotated scopes of a device as event ranges, in order.
std::vector<PhaseUse> annotated_phases(const Snapshot& snapshot, const SnapshotHistory& history);

}  // namespace headroom::replay

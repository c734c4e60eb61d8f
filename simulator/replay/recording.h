#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "simulator/allocator/device.h"

namespace headroom::replay {

/// One event of a program, as recorded: what it asked of the allocator.
struct RecordedEvent {
  enum class Kind { allocate, free, record_stream, synchronize, empty_cache };
  Kind kind;
  std::int64_t id = 0;           ///< of the tensor
  Bytes bytes = 0;               ///< allocate
  allocator::Stream stream = 0;  ///< allocate, record_stream
};

/// What the allocator said after an event.
struct RecordedRow {
  Bytes allocated, reserved, active, inactive_split;
  /// Of an allocation: the ordinal of the segment (expandable: of the mapped piece) and the offset in it;
  /// -1 when it was out of memory, -2 where no piece was known.
  std::int64_t segment = 0, offset = 0;
};

struct RecordedSegmentEvent {
  enum class Action { segment_alloc, segment_free, segment_map, segment_unmap, oom };
  Action action;
  Bytes bytes;
  bool other_stream;               ///< not the default one
  std::optional<Bytes> address{};  ///< above the lowest of the recording
};
std::string_view name(RecordedSegmentEvent::Action action);

/// What PyTorch's allocator did on one stream of events, in a process of its own.
struct Recording {
  std::string name;      ///< `case kind/seed`
  std::string settings;  ///< PYTORCH_CUDA_ALLOC_CONF
  double fraction = 0;   ///< of set_per_process_memory_fraction; 0: none
  Bytes total_memory = 0;
  std::vector<RecordedEvent> events;
  std::vector<RecordedRow> rows;  ///< one an event
  std::vector<RecordedSegmentEvent> segment_events;
  std::vector<std::pair<std::string, std::int64_t>> final;  ///< memory_stats() at the end, without zeros
  std::string contradiction{};  ///< what in it cannot be of any run; empty: nothing
  int line = 0;                 ///< in its file
};

/// Reads recordings, one JSON object a line, from a file that may be compressed. Anything not of the form is
/// an error with the line and the key; what has the form but cannot have happened is a contradiction of its
/// case.
Result<std::vector<Recording>> read_recordings(const std::string& path);
/// The same from text; `file` is for messages.
Result<std::vector<Recording>> parse_recordings(std::string_view text, const std::string& file);

}  // namespace headroom::replay

#pragma once

#include <string>

#include "simulator/phases/run_recorder.h"

namespace headroom::writers {

/// An event stream as JSON, as replay reads it (simulator/replay/stream_file.h, format 3), with the names of its
/// `case` and `process` and the index of its GPU, `device`: `settings` that the process ran under; `events` rows
/// ["a", id, requested bytes, stream, label] and ["f", id], ["r", id, stream] record_stream, ["e"] empty_cache,
/// ["x", 1] and ["x", 0] expandable segments switched on and off,
/// ["p", phase] a phase begins (-1: none); `labels` are "module|operation|component", `phases` names.
std::string events_json(const EventStream& stream, const std::string& title);

}  // namespace headroom::writers

#pragma once

#include <string>

#include "simulator/phases/run_recorder.h"

namespace headroom::writers {

/// An event stream as JSON, in the form of recorded traces, with the names of its `case` and `process` and
/// the index of its GPU, `device`: `events` rows ["a", id, requested bytes, stream, label] and ["f", id],
/// ["r", id, stream] record_stream, ["e"] empty_cache; `labels` are "module|operation|component".
std::string events_json(const EventStream& stream, const std::string& title);

}  // namespace headroom::writers

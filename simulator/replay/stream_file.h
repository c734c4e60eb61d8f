#pragma once

#include <string>
#include <string_view>

#include "models/base/result.h"
#include "simulator/replay/stream.h"

namespace headroom::replay {

/// The file of an allocation stream: one JSON object, plain or gzip.
///
///   {"case": NAME, "format": 3, "settings": CONF, "marker_size": N,
///    "labels": [TEXT, …], "phases": [NAME, …], "events": [EVENT, …]}
///
///   ["a", id, bytes, stream, label, pool]   allocation; trailing elements may be missing, label -1: none
///   ["q", id]   free requested, completed later by
///   ["f", id]   free
///   ["r", id, stream]   the allocation is also in use on that stream (record_stream)
///   ["e"]       empty_cache
///   ["x", 1]    expandable segments are switched on; 0: off
///   ["p", i]    phase i begins and the one before ends; -1: none begins
///   ["S+", bytes] ["S-", bytes] ["M+", bytes] ["M-", bytes]   segment obtained, released, memory mapped,
///   unmapped
///
/// Formats 1 and 2 are read too: an allocation of 7,777 bytes whose block is `marker_size` begins a phase
/// without a name, emptied caches show in the released segments only, and in format 1 an allocation's fourth
/// element is its label. A free that no allocation explains, a second free and negative sizes are errors with
/// the event's index.
Result<AllocationStream> parse_stream(std::string_view text, const std::string& file);

/// In format 3.
std::string stream_text(const AllocationStream& stream);

}  // namespace headroom::replay

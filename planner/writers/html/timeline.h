#pragma once

#include <string>

#include "simulator/replay/snapshot.h"
#include "simulator/replay/snapshot_analysis.h"

namespace headroom::writers {

/// What one device's history did, event by event, as JSON for the page: `events`, their number; `points`,
/// [event, allocated, reserved] (thinned out: of some thousand equal stretches the highest point, so that no peak
/// is lost); `largest`, the largest allocations as [born, freed, bytes, allocated below it, where]; `phases`,
/// [event, name]. Some hundred KiB at most, whatever the history's length.
std::string timeline_json(const replay::Snapshot& snapshot, const replay::DeviceAnalysis& analysis,
                          const std::string& process);

}  // namespace headroom::writers

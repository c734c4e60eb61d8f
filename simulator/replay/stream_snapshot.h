#pragma once

#include <optional>

#include "models/base/result.h"
#include "simulator/replay/snapshot.h"
#include "simulator/replay/stream.h"
#include "simulator/replay/what_if.h"

namespace headroom::replay {

/// The snapshot that a run of the stream under a setting leaves, with its whole history: labels are stacks of
/// one frame, phases are annotations. Ends at the first allocation that fails.
Result<Snapshot> snapshot_of(const AllocationStream& stream, const WhatIfSetting& setting,
                             std::optional<Bytes> limit);

}  // namespace headroom::replay

#pragma once

#include <functional>
#include <string>

#include "models/base/result.h"
#include "simulator/replay/byte_source.h"
#include "simulator/replay/pickle_reader.h"
#include "simulator/replay/snapshot.h"

namespace headroom::replay {

/// Reads a memory snapshot. Values of a wrong type, missing keys that nothing can stand in for, segments
/// whose blocks do not tile them and sizes that are negative are errors that name the place; unknown keys are
/// ignored. Time is linear in the file, at most 10 s a gigabyte; memory stays below its size.
///
/// Addresses are checked for consistency within segments only: a history is checked when it is replayed.
Result<Snapshot> read_snapshot(ByteSource& source, const PickleLimits& limits = {},
                               std::function<void(double)> progress = {});

Result<Snapshot> read_snapshot(const std::string& path);

}  // namespace headroom::replay

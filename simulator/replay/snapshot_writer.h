#pragma once

#include <string>

#include "models/base/result.h"
#include "simulator/replay/pickle_writer.h"
#include "simulator/replay/snapshot.h"

namespace headroom::replay {

/// Writes a snapshot as torch.cuda.memory._dump_snapshot of PyTorch 2.11 does: the same keys and types, so
/// that PyTorch's memory_viz page, its _memory_viz.py and read_snapshot open it.
Status write_snapshot(const Snapshot& snapshot, ByteSink sink);

/// The same in memory.
std::string snapshot_pickle(const Snapshot& snapshot);

}  // namespace headroom::replay

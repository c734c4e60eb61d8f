#pragma once

#include "simulator/report/executor.h"

namespace headroom::cli {

/// `executor` with a memory: of jobs that are equal but for their names, their versions and what their readers assume, it
/// runs one. A repository's configurations often differ only in what costs no memory (seeds, learning rates, data, where
/// checkpoints go). Callable from several threads; one that asks for what another is running waits for it.
Executor remembered(Executor executor);

}  // namespace headroom::cli

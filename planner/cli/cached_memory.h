#pragma once

#include "simulator/device/verdict.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/report/executor.h"
#include "simulator/report/report.h"

namespace headroom::cli {

/// Whether a judged run passes its budget by memory that its allocators keep and do not use, and by nothing else: no
/// process runs out of memory, the host's budget holds, and what is in use fits. Of a closed form that is no verdict,
/// since the allocator gives such memory back when the card is full.
bool only_cached_memory_passes(const Report& report, const Limits& limits);

/// Looks again at a simulated run that passes its budget without running out of memory, as `judge` left it.
///
/// PyTorch's allocator fills the card with blocks that it caches, and gives them back when the driver has no
/// more. So what passes the budget may be cached memory alone. The run is simulated again on a card of the
/// budget less the margin: where it fails there too it does not fit; where it gets on, nobody knows. Whether
/// cached blocks can be given back depends on the order of micro-batches of different lengths, which cut them
/// up, and public runs in this state have ended both ways (docs/REPORTS.md). Such a verdict is left open.
///
/// Where sequences of two tokens pass the budget too, the run's states do, which no order of micro-batches cuts
/// up: then it fits, and the phases shown are those on the smaller card.
///
/// Two more simulations by `exact`, and only for runs over their budget. Errors: as the simulation's.
Status settle_cached_memory(Report& report, const Job& job, const Hardware& hardware, const Limits& limits,
                            const Executor& exact);

}  // namespace headroom::cli

#pragma once

#include "simulator/job/job.h"
#include "simulator/memory/component.h"

namespace headroom {

/// Host memory of a node that does not depend on where weights and states lie: the processes themselves and
/// the step's batch on its way between them. Estimates, from the resident sizes that reports of colocated
/// runs give: a training process 4 GiB, an engine's process on a GPU 4.5 GiB, a process without a GPU 1.5
/// GiB; 60 bytes a token of the batch (ids, masks, positions, log-probabilities, advantages) in three copies.
Breakdown host_floor(const Job& job);

}  // namespace headroom

#pragma once

#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/time/seconds.h"

namespace headroom {

/// Seconds in which a trainer's weights reach an engine, beside what the trainer's own program does.
///
/// Tensor by tensor, as a checkpoint has them (each expert's matrices are tensors of their own): the ranks
/// over which a tensor is spread gather it, with a call for each kind of group (tensor or expert ranks,
/// pipeline stages), and the engine copies its part into place. Calls are the host's work and cost the same
/// for small tensors. To GPUs of its own pool the whole model goes over the network once more, in a ring of one
/// trainer and the engine's ranks, or of all trainers too (`WeightSync::every_rank`): then a node's adapters all
/// take part.
Seconds sync_seconds(const Job& job, const Role& role, const Engine& engine, const Hardware& hardware);

}  // namespace headroom

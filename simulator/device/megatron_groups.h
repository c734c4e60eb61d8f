#pragma once

#include <cstdint>
#include <vector>

#include "simulator/hardware/communicator.h"
#include "simulator/job/job.h"
#include "simulator/job/step.h"

namespace headroom {

/// What one process group of a Megatron-Core rank does that takes device memory, and what for first.
struct GroupUse {
  Verb first = Verb::forward;  ///< the action that makes it: build, build_optimizer, forward, train
  Span span;
  bool collective = true;              ///< else only sends and receives
  bool made = true;                    ///< this use makes the communicator; false: one that is there
  std::int64_t send = 0, receive = 0;  ///< peers
};

/// The groups that `process`'s Megatron roles use on `rank` of a pool of `gpus`, in the order of their
/// making. NCCL makes a communicator for a group of one rank as well, once a collective runs in it:
///   build            first and last stage, where they share tied embeddings
///   build_optimizer  all ranks
///   forward          tensor ranks (the head's cross-entropy asks even one alone), the pipeline's neighbours,
///                    context ranks, expert ranks (which only an all-to-all lets send to each other: DeepEP has
///                    buffers of its own)
///   train            gradients' reduction over data and context ranks, and over experts' replicas; the
///                    gradient norm over all ranks, without a distributed optimizer over those of one replica
/// Read off device memory between phases of recorded runs. Empty without Megatron roles.
std::vector<GroupUse> megatron_groups(const Job& job, const Process& process, std::int64_t gpus,
                                      std::int64_t rank);

}  // namespace headroom

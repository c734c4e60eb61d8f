#pragma once

#include "validator/cuda/nccl.h"
#include "validator/launch/rendezvous.h"

namespace headroom::gpu {

/// A new communicator of all ranks, whose id goes through the rendezvous. Every rank calls it.
Result<Communicator> join_group(launch::Rendezvous& ranks);

}  // namespace headroom::gpu

#pragma once

#include <cstdint>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// torch.distributed's all_gather and reduce_scatter over a list of tensors: NCCL works on one tensor, so the
/// list is joined in one of `elements`, which its stream is told of and which goes at the call's return.
/// Follows ProcessGroupNCCL.cpp (newLikeFlat).
void join_list(Tape& tape, std::int64_t elements, DType dtype, Stream communication);

}  // namespace headroom::tape

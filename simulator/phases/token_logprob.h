#pragma once

#include "simulator/job/role.h"
#include "simulator/tape/core/tape.h"

namespace headroom::phases {

/// Log-probabilities [B,T-1] of the tokens ids [B,T] under logits [B,T,V], as the loss settings form them.
/// The logits are an argument of the Python function: handed over, they go at its return, before its locals.
tape::Tensor token_logprobs(tape::Arg logits, const tape::Tensor& ids, const LossSpec& loss);

}  // namespace headroom::phases

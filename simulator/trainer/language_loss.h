#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::trainer {

/// Transformers' loss of a causal language model, a scalar: logits [B,T,V] in fp32, labels shifted by padding, and the
/// cross entropy of all rows. The narrow logits stay the caller's.
tape::Tensor causal_lm_loss(tape::Arg logits, const tape::Tensor& ids);

/// The same as scripts wrote it by hand: logits without the last position as a copy in order, in their own dtype.
tape::Tensor shifted_lm_loss(tape::Arg logits, const tape::Tensor& ids);

}  // namespace headroom::trainer

#pragma once

#include "simulator/job/role.h"
#include "simulator/tape/core/checkpoint.h"

namespace headroom::trainer {

/// PPO's clipped loss of one packed micro-batch from its log-probs, fp32 [tokens], with the entropy bonus
/// (undefined: none) and the KL term that `loss` asks for. A scalar.
tape::Tensor packed_policy_loss(tape::Tape& tape, const LossSpec& loss, const tape::Tensor& logprobs,
                                const tape::Tensor& entropy);

/// Entropies of packed rows of logits, fp32 [N], as `loss` says. Recomputed ones keep the logits alone and are made
/// again in the backward: torch.utils.checkpoint around the function, by PyTorch's default the reentrant form, which
/// needs `engine`. `loss` outlives the graph. From verl's source; recorded with chunks, not without.
tape::Tensor packed_entropy(const tape::Tensor& logits, const LossSpec& loss, tape::Engine* engine);

}  // namespace headroom::trainer

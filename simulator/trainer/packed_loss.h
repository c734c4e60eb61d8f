#pragma once

#include "simulator/job/role.h"
#include "simulator/tape/core/tape.h"

namespace headroom::trainer {

/// PPO's clipped loss of one packed micro-batch from its log-probs, fp32 [tokens], with the entropy bonus
/// (undefined: none) and the KL term that `loss` asks for. A scalar.
tape::Tensor packed_policy_loss(tape::Tape& tape, const LossSpec& loss, const tape::Tensor& logprobs,
                                const tape::Tensor& entropy);

}  // namespace headroom::trainer

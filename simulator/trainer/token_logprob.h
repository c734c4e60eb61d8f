#pragma once

#include "simulator/job/role.h"
#include "simulator/tape/core/tape.h"

namespace headroom::trainer {

/// Log-probabilities [B,T-1] of the tokens ids [B,T] under logits [B,T,V], as the loss settings form them.
/// The logits are an argument of the Python function: handed over, they go at its return, before its locals.
tape::Tensor token_logprobs(tape::Arg logits, const tape::Tensor& ids, const LossSpec& loss);

/// log-probs of tokens [B,C] from logits [B,C,V]: in fp32 the token's logit minus logsumexp, row by row; in
/// narrower types row-wise log_softmax.
tape::Tensor selective_log_softmax(const tape::Tensor& logits, const tape::Tensor& tokens);

/// log_softmax of rows [N,V], `chunk` rows at once; the parts stand until they are joined.
tape::Tensor collected_log_softmax(tape::Tensor rows, std::int64_t chunk);

/// Entropies of the positions that predict a token: [B,T-1], or [B(T-1)] by `loss.entropy_chunk` packed rows.
tape::Tensor token_entropies(const tape::Tensor& logits, const LossSpec& loss);

}  // namespace headroom::trainer

#pragma once

#include <cstdint>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// Fused losses over packed logits [N,V], as RLHF trainers use them in place of log_softmax and gather.

/// flash-attn's Triton cross-entropy: per-token loss in fp32 [N]. Saves the logits themselves and one fp32
/// number a row; no further [N,V] tensor forward. Backward: the gradient is written over the logits
/// (`in_place`), or is one new [N,V]. Source: flash_attn/ops/triton/cross_entropy.py.
Tensor flash_cross_entropy(Arg logits, Arg labels, bool in_place);

/// Entropy of each row out of one compiled kernel: fp32 [N]. Keeps the logits and two numbers a row; backward
/// makes one [N,V]. The kernel takes no memory of its own.
Tensor compiled_entropy(Arg logits);
/// The same of packed rows, so many at a time, all in one compiled function: its backward holds one part's
/// gradient in fp32 beside the whole.
Tensor compiled_chunked_entropy(Arg logits, std::int64_t rows);

/// logsumexp(logits) - sum(softmax(logits) * logits), operator by operator; fp32 under autocast.
Tensor eager_entropy(const Tensor& logits);
/// The same of packed rows [N,V], so many at a time, each part widened to fp32; the parts are written into
/// one fp32 [N], whose gradient is made anew for every part.
Tensor chunked_entropy(const Tensor& logits, std::int64_t rows);

/// Head and loss in one: hidden [N,h] and weight [V,h] to token log-probs and entropies, fp32 [N] each,
/// without logits of all rows. With `rows` > 0 logits are formed for so many rows at a time; 0: never
/// (Triton).
struct FusedOutput {
  Tensor logprobs, entropy;
};
FusedOutput fused_linear_logprobs(Arg hidden, const Tensor& weight, Arg labels, std::int64_t rows);

/// Liger's head and loss in one: hidden [N,h] and weight [V,h] to a scalar in fp32. Both gradients are made
/// in the forward, `rows` at a time in place of their logits, and only scaled in the backward. Under autocast
/// the weight is cast for every part. Source: liger_kernel/ops/fused_linear_cross_entropy.py.
Tensor liger_linear_loss(Arg hidden, const Tensor& weight, Arg labels, std::int64_t rows);
/// The rows of a part that Liger chooses: as many logits as the hidden states have numbers.
std::int64_t liger_rows(std::int64_t tokens, std::int64_t vocabulary, std::int64_t width);

}  // namespace headroom::tape

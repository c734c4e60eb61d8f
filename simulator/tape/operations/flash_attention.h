#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// flash-attn 2's variable-length attention over packed sequences: same operands as
/// `scaled_dot_product_attention` ([B,heads,T,d] views, keys and values with their own number of heads,
/// values with their own head size), for `sequences` packed into the tokens. Memory is linear in tokens:
///   forward   out, log-sum-exp fp32 [heads, tokens], two int64 of generator state
///   backward  dq, dk, dv; row sums fp32 [heads, tokens + 128 sequences]; dq accumulated in fp32
///             [tokens + 128 sequences, heads, d rounded up]; for grouped queries dk and dv once a query head
/// Source: mha_varlen_fwd and mha_varlen_bwd of flash-attn 2.x (flash_api.cpp).
Tensor flash_attention_varlen(Arg query, Arg key, Arg value, std::int64_t sequences);

}  // namespace headroom::tape

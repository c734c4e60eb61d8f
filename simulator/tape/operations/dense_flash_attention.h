#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// scaled_dot_product_attention's flash kernel: bf16 or fp16, no mask, keys and values with their own number
/// of heads. Heads whose size is no multiple of eight numbers are padded by copies.
///   forward   result; one fp32 log-sum-exp a row; where few rows meet many keys (decoding), partial results
///             and log-sum-exps of every split, fp32; the generator's state, 16 and 8 bytes
///   saves     key, query, value, log-sum-exp, result, the generator's state
///   backward  dq, dk, dv; row sums fp32 and dq in fp32, rows rounded up to 128 and heads to 32 numbers;
///             for grouped queries dk and dv once a query head
/// Source: aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_fwd, mha_bwd).
Tensor dense_flash_attention(const Tensor& query, const Tensor& key, const Tensor& value, bool causal);

/// Parts into which the forward kernel cuts the keys so that `blocks` thread blocks fill `processors`; 1
/// where they do so by themselves.
std::int64_t key_splits(std::int64_t blocks, std::int64_t processors, std::int64_t key_blocks);

}  // namespace headroom::tape

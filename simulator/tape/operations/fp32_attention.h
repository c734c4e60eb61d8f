#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// scaled_dot_product_attention of fp32 tensors, which neither cuDNN nor flash attention takes, of narrower
/// ones where a GPU has no other kernel, and of one key and value head behind a mask (Falcon). Checked
/// against recordings of PyTorch 2.11 on H100 and H200, heads of 64 to 256 elements.

/// The memory-efficient kernel, for as many key and value heads as query heads. `bias` is a mask as numbers,
/// [B or 1,1,T,columns], or undefined; rows that are no multiple of eight numbers are padded by a copy.
///   forward   result; one fp32 log-sum-exp a row, rows rounded up to 32, when gradients are wanted
///   saves     bias, key, query, value, log-sum-exp, result
///   backward  dq, dk, dv; in fp32 result times gradient and its row sums, else the sums alone; a tile of dq
///             for every block of rows and 64 columns (narrow types: as many as rows), behind a lock of 16
///             bytes: blocks of 64 rows for heads up to 64 elements, else 128
Tensor efficient_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias);

/// How `composite_attention` reaches every query head.
enum class GroupedHeads {
  repeated,   ///< keys and values are copied for them (enable_gqa)
  broadcast,  ///< one head stands for all; the products expand it
};

/// The composite form, which grouped heads take: scaled queries and keys, all scores, a softmax that looks
/// for rows without a finite score. Half-precision operands are widened to fp32, results cast back. `causal`
/// makes a mask; `bias` is one as numbers or undefined.
Tensor composite_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
                           bool causal, GroupedHeads grouped);

}  // namespace headroom::tape

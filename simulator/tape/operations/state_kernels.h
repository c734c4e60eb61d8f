#pragma once

#include <cstdint>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// The fused kernels of layers that keep a state: causal-conv1d, flash-linear-attention (fla) and mamba_ssm,
/// as their Python sources allocate and save. No recording stands behind them yet.

/// causal_conv1d_fn with its activation: x [B,T,channels], weight [channels,1,kernel], bias [channels] or
/// undefined. Saves x, weight and bias. Backward: gradients of x, and of weight and bias in fp32, then cast.
Tensor causal_conv1d(Arg x, const Tensor& weight, const Tensor& bias);

/// fla's FusedRMSNormGated: norm of x [rows,d] times the gate's SiLU. Saves x, gate, weight and a fp32
/// deviation a row.
Tensor gated_rms_norm(Arg x, Arg gate, const Tensor& weight);

/// fla's chunk_gated_delta_rule with normalised queries and keys: query and key [B,T,H,K], value [B,T,H,V],
/// decay (fp32) and beta [B,T,H]. Row-major copies of the first three, the sums of decays, the triangle of
/// every chunk and the normalised queries and keys are kept; states of all chunks exist in the forward and
/// again in the backward. `last`: takes the state [B,H,K,V] in fp32; null: none is made.
Tensor chunk_gated_delta_rule(Arg query, Arg key, Arg value, const Tensor& decay, const Tensor& beta,
                              std::int64_t chunk, Tensor* last);

/// What mamba_ssm's mamba_split_conv1d_scan_combined works on beside the projection's result.
struct Mamba2Weights {
  const Tensor &convolution, &convolution_bias, &dt_bias, &decay, &skip, &norm, &output, &output_bias;
};
struct Mamba2Sizes {
  std::int64_t heads, groups, key_dim, value_dim, chunk;
};
/// Convolution, scan, gated norm and output projection in one: projected [B,T,values + channels + heads] to
/// [B,T,h]. Keeps the projection's result and the scan's; all else is made again in the backward. Without an
/// output weight (and norm) it ends with the scan's result times its gate, [B,T,values].
Tensor mamba2_combined(Arg projected, const Mamba2Weights& weights, const Mamba2Sizes& sizes);

}  // namespace headroom::tape

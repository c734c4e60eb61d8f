#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// torch.nn.functional.layer_norm over the last dimension: result, fp32 mean and reciprocal deviation of each
/// row; saves input, mean, rstd (and the weight, a leaf). Backward: dX, dWeight, dBias. Under autocast all
/// arguments are cast to fp32, from right to left, and the result is fp32.
Tensor layer_norm(Arg input, const Tensor& weight, const Tensor& bias);

}  // namespace headroom::tape

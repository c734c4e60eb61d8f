#pragma once

#include <cstdint>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// build_alibi_tensor of Falcon and Bloom: each head's slope times each token's place among those that a mask
/// [B,columns] of int64 lets through, [B heads,1,columns] in `dtype`. `slope_dtype` is what slopes are cast
/// to before the product.
Tensor build_alibi(const Tensor& mask, std::int64_t heads, DType slope_dtype, DType dtype);

/// A boolean mask [B,1,T,columns] and the biases joined in one table of numbers [B,heads,T,columns] (Falcon).
Tensor alibi_mask(Tensor visible, const Tensor& alibi);

}  // namespace headroom::tape

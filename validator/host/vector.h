#pragma once

#include <cstdint>

#include "models/base/dtype.h"

/// What else the host does to offloaded tensors: norms, scaling and sums of gradients, and casts. Element
/// types are fp32, fp16 or bf16; arithmetic is fp32, of norms double. On several threads; each returns when
/// it is done.
namespace headroom::gpu {

/// sqrt(sum of squares)
double norm_on_host(const void* x, DType, std::int64_t n);
/// x *= factor
void scale_on_host(void* x, DType, float factor, std::int64_t n);
/// x += y, both of `dtype`.
void add_on_host(void* x, const void* y, DType dtype, std::int64_t n);
/// out = in, rounded to nearest. The two do not overlap.
void cast_on_host(const void* in, DType from, void* out, DType to, std::int64_t n);

}  // namespace headroom::gpu

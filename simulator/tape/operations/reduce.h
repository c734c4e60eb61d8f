#pragma once

#include <cstdint>
#include <span>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// Reductions. When one output's work is split over several blocks, the kernel takes a buffer for partial
/// results and semaphores after its result exists, and gives both back when the call returns.

/// What a reduction allocates beside its result; zeros when its work is not split.
struct SplitReduction {
  Bytes buffer = 0;
  Bytes semaphores = 0;
};
/// For an input of this shape reduced over the dimensions in `mask` (bit i: dimension i); `accumulator` is
/// the size of one partial result in bytes. Follows setReduceConfig of ATen's Reduce.cuh.
SplitReduction split_reduction(const DeviceTraits& traits, const Shape& shape, unsigned mask,
                               Bytes accumulator);

Tensor sum(Arg self, unsigned mask, bool keep);  ///< over the dimensions in mask
Tensor sum(Arg self);                            ///< to a scalar
Tensor mean(Arg self, int dimension, bool keep);
Tensor mean(Arg self);
/// Reductions without a gradient (min, max, argmax, any, all, cumsum's kin): `result` is the output's dtype.
Tensor reduce(std::uint16_t name, DType result, Bytes accumulator, Arg self, unsigned mask, bool keep);

/// Sums a gradient to the sizes of what it belongs to (at::sum_to). Leading dimensions vanish by a view.
Tensor sum_to(Arg self, const Shape& sizes);

}  // namespace headroom::tape

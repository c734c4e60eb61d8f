#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// torch.cumsum over the last dimension, as int64: bool and int inputs are widened by a copy that goes at
/// once; a single row takes scratch memory for the device-wide scan.
Tensor cumsum(Arg self);
/// The scratch memory of a scan over `self`'s elements, where it has a single row; undefined otherwise.
Tensor single_row_scratch(const Tensor& self);

}  // namespace headroom::tape

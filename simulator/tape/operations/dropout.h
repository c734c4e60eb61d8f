#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// torch.nn.functional.dropout with p > 0 in training: a mask of one byte an element, then the result; saves
/// the mask. With p = 0 or outside training call nothing: PyTorch returns its input.
Tensor dropout(Arg self);

}  // namespace headroom::tape

#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// torch.nn.functional.embedding: rows of weight [V,h] for int64 indices. Saves the indices; backward makes
/// the whole table's gradient, and above 3,072 indices sorts them first.
Tensor embedding(const Tensor& weight, Arg indices);

}  // namespace headroom::tape

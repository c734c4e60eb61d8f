#pragma once

#include <cstdint>

#include "models/architecture/architecture.h"
#include "models/base/result.h"

namespace headroom {

/// What one of `ranks` tensor-parallel ranks has of a model: the same blocks with its share of the heads, of the
/// MLPs' and experts' hidden sizes and of the vocabulary's rows; hidden states, norms and positions whole. Key/value
/// heads fewer than ranks are repeated. So run PyTorch's parallel styles (DTensor): columns, then rows, whose sums
/// are exchanged in place. Errors: heads or sizes that do not divide.
Result<Architecture> tensor_slice(const Architecture& model, std::int64_t ranks);

}  // namespace headroom

#pragma once

#include <cstdint>

#include "models/architecture/architecture.h"

namespace headroom {

/// How many modules Transformers makes of a model: every part of its tensors' names but the last, and an
/// activation a layer. What walks over them (`train()`, `eval()`) takes as long.
std::int64_t modules_of(const Architecture& model);

}  // namespace headroom

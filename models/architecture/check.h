#pragma once

#include "models/architecture/architecture.h"
#include "models/architecture/config.h"

namespace headroom {

/// Rejects sizes that contradict each other or that no model has: key/value heads that do not divide the
/// heads, more experts a token than experts. Errors stay in the config.
void check_sizes(Config& config, const Decoder& decoder);

/// Rejects a model whose elements do not fit the arithmetic (2^56: bytes, gradients and states stay below
/// 2^63).
void check_counts(Config& config, const Architecture& model);

}  // namespace headroom

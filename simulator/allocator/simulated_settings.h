#pragma once

#include <string_view>

#include "simulator/allocator/settings.h"

namespace headroom::allocator {

/// `parse_allocator_settings` for a run to be simulated. One more error: a backend other than PyTorch's
/// native allocator, whose blocks and cache are the only ones that are simulated.
Result<AllocatorSettings> parse_simulated_settings(std::string_view text);

}  // namespace headroom::allocator

#include "simulator/allocator/simulated_settings.h"

namespace headroom::allocator {

Result<AllocatorSettings> parse_simulated_settings(std::string_view text) {
  HEADROOM_ASSIGN(const AllocatorSettings settings, parse_allocator_settings(text));
  if (settings.backend != AllocatorSettings::Backend::native)
    return fail(Error{.message = "expected native, found cudaMallocAsync: it is the driver's own allocator; "
                                 "only PyTorch's native one is simulated",
                      .file = {},
                      .key = "backend"});
  return settings;
}

}  // namespace headroom::allocator

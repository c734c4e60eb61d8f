#pragma once

#include <cstdint>

namespace headroom::gpu {

/// Multiprocessors of the current card; asked once a process.
int multiprocessors();

/// Blocks for a kernel whose blocks stride over `items` of work, `per_block` each at a time: enough to fill
/// the card `waves` times over, never more than the work.
unsigned grid_for(std::int64_t items, std::int64_t per_block, int waves = 8);

}  // namespace headroom::gpu

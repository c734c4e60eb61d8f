#pragma once

#include "simulator/memory/memory.h"

namespace headroom {

/// For `Memory::wait_stream`: the host itself, which goes on when the work of the other stream is done. Clocks alone
/// know it; whether frees that waited for a stream are through by then is what `wait_event` says.
inline constexpr Stream kHostStream = static_cast<Stream>(-1);

/// Streams without work, for moments of others that are kept: `wait_stream(kKept[i], other)`.
inline constexpr Stream kKept[] = {14, 15};

}  // namespace headroom

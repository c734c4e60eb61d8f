#pragma once

#include <cstddef>
#include <functional>

namespace headroom {

/// Calls `work(i)` for every i below `count`, on up to `threads` threads (0: one a processor), this one among
/// them; returns when all are done. Indices are taken in order. When one call throws (memory exhausted), no
/// further one begins, and the first exception is thrown here: never a call of std::terminate. A thread that
/// cannot be started is done without.
void parallel_for(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work);

}  // namespace headroom

#pragma once

#include <cstdint>
#include <functional>

namespace headroom::gpu {

/// Threads that work over n elements on this machine: its processors, at most 16 (memory is the limit from
/// there on), and none for less than 64 Ki elements of work.
int host_threads(std::int64_t n);

/// Calls `work(part, first, last)` once for each of `host_threads(n)` equal parts of [0, n), each on a thread
/// of its own (the first on the caller's); returns when all are done. Parts begin at multiples of 64
/// elements.
void on_host_threads(std::int64_t n, const std::function<void(int, std::int64_t, std::int64_t)>& work);

}  // namespace headroom::gpu

#include "validator/host/threads.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "models/base/bytes.h"

namespace headroom::gpu {

int host_threads(std::int64_t n) {
  constexpr std::int64_t kMost = 16, kLeastWork = 64 * 1024;
  const auto processors = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  return static_cast<int>(std::clamp<std::int64_t>(n / kLeastWork, 1, std::min(kMost, processors)));
}

void on_host_threads(std::int64_t n, const std::function<void(int, std::int64_t, std::int64_t)>& work) {
  constexpr std::int64_t kAlignment = 64;
  const int threads = host_threads(n);
  const std::int64_t part = round_up(ceil_div(n, threads), kAlignment);
  const auto run = [&](int index) {
    const std::int64_t first = std::min(n, index * part), last = std::min(n, first + part);
    work(index, first, last);
  };
  std::vector<std::jthread> others;
  for (int index = 1; index < threads; ++index) others.emplace_back(run, index);
  run(0);
}

}  // namespace headroom::gpu

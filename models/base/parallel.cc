#include "models/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace headroom {

void parallel_for(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> helpers;
    try {
      for (std::size_t i = 1; i < std::min<std::size_t>(threads, count); ++i) helpers.emplace_back(run);
    } catch (const std::system_error&) {  // no further thread can be had
    } catch (const std::bad_alloc&) {
    }
    run();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace headroom

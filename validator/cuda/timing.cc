#include "validator/cuda/timing.h"

#include <algorithm>
#include <vector>

#include "validator/cuda/handles.h"

namespace headroom::gpu {

Result<double> median_seconds(int repeats, cudaStream_t stream, const std::function<Status(int)>& work) {
  constexpr int kWarmUp = 2;
  HEADROOM_ASSIGN(const EventHandle start, make_event(true));
  HEADROOM_ASSIGN(const EventHandle stop, make_event(true));
  std::vector<double> seconds;
  for (int run = 0; run < kWarmUp + repeats; ++run) {
    HEADROOM_TRY(HEADROOM_CUDA(cudaEventRecord(start.get(), stream)));
    HEADROOM_TRY(work(run));
    HEADROOM_TRY(HEADROOM_CUDA(cudaEventRecord(stop.get(), stream)));
    HEADROOM_TRY(HEADROOM_CUDA(cudaEventSynchronize(stop.get())));
    float milliseconds = 0;
    HEADROOM_TRY(HEADROOM_CUDA(cudaEventElapsedTime(&milliseconds, start.get(), stop.get())));
    if (run >= kWarmUp) seconds.push_back(static_cast<double>(milliseconds) * 1e-3);
  }
  const auto middle = seconds.begin() + repeats / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace headroom::gpu

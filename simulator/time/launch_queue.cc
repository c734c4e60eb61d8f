#include "simulator/time/launch_queue.h"

#include <algorithm>
#include <utility>

namespace headroom {

void LaunchQueue::wait_all() {
  host_ = latest_;
}

void LaunchQueue::follow(Stream stream, Stream other) {
  double& end = streams_[stream % kStreams];
  end = std::max(end, streams_[other % kStreams]);
}

LaunchQueue::Work LaunchQueue::work() const {
  return {work_.host, *std::max_element(busy_.begin(), busy_.end()), work_.ran};
}

LaunchQueue::Stretch LaunchQueue::since(const Stretch& mark) const {
  return {work_.host - mark.host, busy_[0] - mark.busy, spent_ - mark.spent, work_.ran - mark.ran};
}

void LaunchQueue::repeat(const Stretch& stretch) {
  const double before = latest_;
  host_ += stretch.host;
  work_.host += stretch.host;
  work_.ran += stretch.ran;
  busy_[0] += stretch.busy;
  streams_[0] = std::max(streams_[0] + stretch.busy, host_);
  latest_ = std::max(before, streams_[0]);
  const double total = stretch.spent.total();
  if (total > 0) spent_ += stretch.spent * ((latest_ - before) / total);
}

Seconds LaunchQueue::take() {
  host_ = latest_ = 0;
  work_ = {};
  streams_.fill(0);
  busy_.fill(0);
  return std::exchange(spent_, Seconds{});
}

}  // namespace headroom

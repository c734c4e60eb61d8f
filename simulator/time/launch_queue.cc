#include "simulator/time/launch_queue.h"

#include <algorithm>
#include <utility>

namespace headroom {

void LaunchQueue::wait(Stream stream) {
  host_ = std::max(host_, streams_[stream % kStreams]);
}

void LaunchQueue::wait_all() {
  host_ = latest_;
}

void LaunchQueue::follow(Stream stream, Stream other) {
  double& end = streams_[stream % kStreams];
  end = std::max(end, streams_[other % kStreams]);
}

LaunchQueue::Stretch LaunchQueue::since(const Stretch& mark) const {
  return {host_ - mark.host, busy_ - mark.busy, spent_ - mark.spent};
}

void LaunchQueue::repeat(const Stretch& stretch) {
  const double before = latest_;
  host_ += stretch.host;
  busy_ += stretch.busy;
  streams_[0] = std::max(streams_[0] + stretch.busy, host_);
  latest_ = std::max(before, streams_[0]);
  const double total = stretch.spent.total();
  if (total > 0) spent_ += stretch.spent * ((latest_ - before) / total);
}

Seconds LaunchQueue::take() {
  host_ = latest_ = busy_ = 0;
  streams_.fill(0);
  return std::exchange(spent_, Seconds{});
}

}  // namespace headroom

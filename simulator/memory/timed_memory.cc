#include "simulator/memory/timed_memory.h"

#include <algorithm>
#include <utility>

#include "simulator/time/rates.h"

namespace headroom {

void TimedMemory::run(const Operation& operation) {
  inner().run(operation);
  if (timed()) seconds_ += repeat * stands_for_ * seconds(operation, hardware_, gpus_per_node_, quick_bytes_);
}

void TimedMemory::begin() {
  repetition_->begin();
  watching_ = true;
  segments_.clear();
  segment_start_ = seconds_;
}

void TimedMemory::pause() {
  repetition_->pause();
  if (watching_) segments_.push_back(seconds_ - segment_start_);
}

void TimedMemory::resume() {
  repetition_->resume();
  segment_start_ = seconds_;
}

bool TimedMemory::closed() {
  if (!repetition_->closed()) return false;
  segments_.push_back(seconds_ - segment_start_);
  watching_ = false;
  return true;
}

void TimedMemory::stop() {
  repetition_->stop();
  watching_ = false;
}

bool TimedMemory::only_sums() const {
  const auto* steps = dynamic_cast<const GrowingSteps*>(repetition_);
  return steps != nullptr && steps->only_sums();
}

void TimedMemory::stand_for(std::int64_t times) {
  if (auto* steps = dynamic_cast<GrowingSteps*>(repetition_)) steps->stand_for(times);
  stands_for_ = static_cast<double>(times);
}

void TimedMemory::apply(std::size_t segment) {
  repetition_->apply(segment);
  seconds_ += segments_[segment];
}

double TimedMemory::take_seconds() {
  return std::exchange(seconds_, 0.0);
}

Bytes TimedMemory::bytes_within_latency(const Hardware& hardware) {
  Bytes low = 0, high = kGiB;
  while (high - low > 1) {
    const Bytes middle = low + (high - low) / 2;
    (memory_seconds(hardware, middle) > hardware.latencies.operation ? high : low) = middle;
  }
  return low;
}

double TimedMemory::seconds(const Operation& o, const Hardware& hardware, std::int64_t gpus_per_node,
                            Bytes quick_bytes) {
  const auto collective = [&](Collective kind) {
    const std::int64_t ranks = std::max<std::int64_t>(1, o.sizes[0]);
    return collective_seconds(hardware, kind, o.bytes,
                              {.ranks = ranks, .nodes = std::min(ranks, ceil_div(ranks, gpus_per_node))});
  };
  switch (o.kind) {
    case OperationKind::matmul:
      return batched_product_seconds(hardware, std::max<std::int64_t>(1, o.sizes[3]), o.sizes[0], o.sizes[1],
                                     o.sizes[2], o.dtype);
    case OperationKind::attention_forward:
    case OperationKind::attention_backward: {
      // Fused attention reaches about half of the matrix rate (flash-attn 2 on Hopper).
      constexpr double kShareOfMatrixRate = 0.5;
      return std::max(o.flops / (kShareOfMatrixRate * hardware.matrix.of(o.dtype)),
                      memory_seconds(hardware, o.bytes));
    }
    case OperationKind::host_to_device:
    case OperationKind::device_to_host:
      return host_transfer_seconds(hardware, o.bytes);
    case OperationKind::all_gather:
      return collective(Collective::all_gather);
    case OperationKind::reduce_scatter:
      return collective(Collective::reduce_scatter);
    case OperationKind::all_reduce:
      return collective(Collective::all_reduce);
    case OperationKind::all_to_all:
      return collective(Collective::all_to_all);
    case OperationKind::broadcast:
      return collective(Collective::broadcast);
    default:
      return o.bytes <= quick_bytes ? hardware.latencies.operation : memory_seconds(hardware, o.bytes);
  }
}

}  // namespace headroom

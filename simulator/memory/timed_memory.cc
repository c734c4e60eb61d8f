#include "simulator/memory/timed_memory.h"

#include <algorithm>
#include <utility>

#include "simulator/memory/host_stream.h"
#include "simulator/time/kernel_seconds.h"

namespace headroom {
namespace {

/// Bytes of the operands that lie on the host, where none lies on the device; 0 otherwise.
Bytes on_host_alone(const Operation& o) {
  Bytes bytes = 0;
  for (const auto operands : {o.inputs, o.outputs})
    for (const Operand& one : operands) {
      if (one.host == kNoHostBlock) return 0;
      bytes += bytes_of(one.dtype, one.elements);
    }
  return bytes;
}

HostBlock host_side(const Operation& o) {
  for (const auto operands : {o.inputs, o.outputs})
    for (const Operand& one : operands)
      if (one.host != kNoHostBlock) return one.host;
  return kNoHostBlock;
}

}  // namespace

Block TimedMemory::allocate(Bytes requested, Stream stream, Label label) {
  const Block block = inner().allocate(requested, stream, label);
  if (!timed() || requested == 0) return block;
  queue_.host(times() * (thread_.allocation(label) + (records_history ? hardware_.host_times.history : 0)));
  driver_calls();
  return block;
}

/// What the inner memory has got from the driver since last time; giving back waits for the device.
void TimedMemory::driver_calls() {
  if (!driver_) return;
  const DriverUse use = driver_();
  const std::int64_t gets = use.gets - use_.gets, returns = use.returns - use_.returns;
  if (gets == 0 && returns == 0) return;
  const auto bytes = static_cast<double>(std::abs(use.reserved - use_.reserved));
  const bool fewer = use.reserved < use_.reserved;
  use_ = use;
  const HostRates& rates = hardware_.host_rates;
  const double rate = use.maps ? rates.device_map : fewer ? rates.device_return : rates.device_get;
  if (returns > 0) queue_.wait_all();
  const double calls = static_cast<double>(gets) * hardware_.host_times.segment +
                       static_cast<double>(returns) * hardware_.host_times.segment_return;
  queue_.host((emptied_ ? times() : 1) * (calls + (rate > 0 ? bytes / rate : 0)));
}

HostBlock TimedMemory::allocate_host(Bytes requested, HostKind kind, Component component) {
  const HostBlock block = inner().allocate_host(requested, kind, component);
  if (timed()) queue_.host(times() * blocks_.allocate(block, requested, kind), Spent::copies);
  return block;
}

void TimedMemory::free_host(HostBlock block) {
  if (timed()) queue_.host(times() * blocks_.free(block), Spent::copies);
  inner().free_host(block);
}

void TimedMemory::empty_cache() {
  inner().empty_cache();
  emptied_ = true;
  if (timed()) driver_calls();
}

void TimedMemory::synchronize() {
  inner().synchronize();
  queue_.wait_all();
}

StreamMark TimedMemory::record_event(Stream stream) {
  const StreamMark mark = inner().record_event(stream);
  if (timed()) marks_.emplace_back(mark, queue_.reached(stream));
  return mark;
}

void TimedMemory::wait_event(StreamMark mark) {
  inner().wait_event(mark);
  const auto known =
      std::find_if(marks_.begin(), marks_.end(), [mark](const auto& one) { return one.first == mark; });
  if (known == marks_.end()) return;
  queue_.wait_until(known->second);
  marks_.erase(known);
}

void TimedMemory::wait_stream(Stream stream, Stream other) {
  inner().wait_stream(stream, other);
  stream == kHostStream ? queue_.wait(other) : queue_.follow(stream, other);
}

void TimedMemory::wait_for_peers(Stream stream) {
  inner().wait_for_peers(stream);
  peers_.insert(stream);
}

void TimedMemory::run(const Operation& operation) {
  ++launches_;
  inner().run(operation);
  if (!timed()) return;
  if (operation.kind == OperationKind::host_to_device || operation.kind == OperationKind::device_to_host)
    return copy(operation);
  if (operation.bytes == 0)
    if (const Bytes bytes = on_host_alone(operation); bytes > 0) return on_host(operation, bytes);
  queue_.host(times() * thread_.operation(operation));
  const Spent spent = spent_on(operation.kind);
  if (spent == Spent::network) queue_.host(times() * hardware_.latencies.collective);
  const bool of_tokens = spent == Spent::matrix || spent == Spent::memory;
  queue_.launch(
      operation.stream,
      times() * (of_tokens ? filled : 1) *
          kernel_seconds(operation, thread_.form(operation.label.operation), hardware_, gpus_per_node_),
      spent);
  // The sampler asks after each token whether all sequences have ended.
  if (operation.kind == OperationKind::sample) queue_.wait(operation.stream);
}

/// A copy between host and device. With pageable memory the host takes part in it; into pinned memory it
/// waits for what it copies, from there it goes on.
void TimedMemory::copy(const Operation& o) {
  const HostBlock block = host_side(o);
  const bool down = o.kind == OperationKind::device_to_host;
  queue_.host(times() * hardware_.latencies.host_transfer);
  const HostRates& rates = hardware_.host_rates;
  const double rate = down ? rates.to_pageable : rates.from_pageable;
  if (block != kNoHostBlock && !blocks_.pinned(block) && rate > 0) {
    queue_.wait(o.stream);
    queue_.host(times() * (static_cast<double>(o.bytes) / rate + (down ? blocks_.first_touch(block) : 0)),
                Spent::copies);
    return;
  }
  queue_.launch(o.stream, times() * kernel_seconds(o, KernelForm::forward, hardware_, gpus_per_node_),
                Spent::copies);
  if (down && o.stream == 0) queue_.wait(o.stream);
}

void TimedMemory::host_work(HostWork what, std::int64_t count) {
  inner().host_work(what, count);
  if (timed()) queue_.host(times() * static_cast<double>(count) * thread_.work(what));
}

void TimedMemory::on_host(const Operation& o, Bytes bytes) {
  const double rate = hardware_.host_rates.optimizer;
  queue_.host(times() * (thread_.operation(o) + (rate > 0 ? static_cast<double>(bytes) / rate : 0)));
}

void TimedMemory::begin() {
  repetition_->begin();
  watching_ = true;
  segments_.clear();
  segment_start_ = queue_.mark();
}

void TimedMemory::pause() {
  repetition_->pause();
  if (watching_) segments_.push_back(queue_.since(segment_start_));
}

void TimedMemory::resume() {
  repetition_->resume();
  segment_start_ = queue_.mark();
}

bool TimedMemory::closed() {
  if (!repetition_->closed()) return false;
  segments_.push_back(queue_.since(segment_start_));
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
  queue_.repeat(segments_[segment]);
}

}  // namespace headroom

#pragma once

#include <map>
#include <vector>

#include "models/base/result.h"
#include "simulator/allocator/device.h"
#include "validator/cuda/handles.h"

namespace headroom::gpu {

/// The streams of one process by small index; 0 is the default stream, others are made on first use and do
/// not wait for it, as PyTorch's.
class Streams {
 public:
  Result<cudaStream_t> get(std::uint32_t index);

 private:
  std::map<std::uint32_t, StreamHandle> made_;
};

/// The real card behind the caching allocator's policy: segments from cudaMalloc, expandable segments from
/// the virtual memory API (one physical allocation a chunk, as PyTorch), events from the process's streams.
///
/// Running out of memory is an answer; any other failure is kept as the first `error()`, after which the
/// device answers as if it were out of memory.
class GpuDevice : public allocator::Device {
 public:
  /// The current card. `streams` outlives the device.
  static Result<GpuDevice> create(Streams& streams);

  Bytes total_memory() const override { return total_; }
  Bytes free_memory() const override;
  std::optional<allocator::Address> allocate(Bytes bytes) override;
  void free(allocator::Address address, Bytes bytes) override;
  allocator::Address reserve(Bytes bytes, bool small_pool) override;
  void release(allocator::Address address, Bytes bytes) override;
  bool map(allocator::Address address, Bytes bytes, Bytes chunk) override;
  void unmap(allocator::Address address, Bytes bytes, Bytes chunk) override;
  allocator::EventToken record_event(allocator::Stream stream) override;
  bool event_done(allocator::EventToken event) override;
  void wait_event(allocator::EventToken event) override;

  /// The first failure that was not about memory; success if there was none.
  const Status& error() const { return error_; }
  /// The highest use of the whole card, by cudaMemGetInfo after every call that takes memory. Exact for this
  /// process; what others take in between is seen at its next call.
  Bytes highest_use() const { return highest_use_; }
  /// Counts the present use, where another process has just taken memory.
  void note_use();
  /// Starts anew from the present use.
  void reset_highest_use();
  /// Bytes that calls of the driver took a multiple of.
  Bytes granularity() const { return granularity_; }

 private:
  GpuDevice(Streams& streams, int ordinal, Bytes total, Bytes granularity)
      : streams_(&streams), ordinal_(ordinal), total_(total), granularity_(granularity) {}
  bool keep(Status status);
  bool map_chunk(allocator::Address address, Bytes chunk);

  Streams* streams_;
  int ordinal_;
  Bytes total_, granularity_, highest_use_ = 0;
  std::map<allocator::EventToken, EventHandle> events_;
  std::vector<EventHandle> unused_events_;
  allocator::EventToken next_event_ = 1;
  mutable Status error_;  ///< asking for free memory may fail too
};

}  // namespace headroom::gpu

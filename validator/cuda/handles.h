#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "models/base/bytes.h"
#include "validator/cuda/check.h"

namespace headroom::gpu {

/// Owner of a CUDA handle or address: movable, released once. `Release` is a function that takes the handle;
/// its result is ignored, since a destructor has nobody to tell and a failing context fails the next checked
/// call.
template <class Handle, auto Release>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != Handle{}) static_cast<void>(Release(handle_));
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Handle{}; }

 private:
  Handle handle_{};
};

using StreamHandle = Owned<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Owned<cudaEvent_t, cudaEventDestroy>;
using DeviceBlock = Owned<void*, cudaFree>;
using PinnedBlock = Owned<void*, cudaFreeHost>;
using GraphHandle = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExecHandle = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// A stream that does not wait for the default stream.
Result<StreamHandle> make_stream();
/// An event; `timing` as needed by cudaEventElapsedTime.
Result<EventHandle> make_event(bool timing);
/// Device memory straight from cudaMalloc, outside any allocator. `bytes` > 0.
Result<DeviceBlock> make_device_block(Bytes bytes);
/// Page-locked host memory. `bytes` > 0.
Result<PinnedBlock> make_pinned_block(Bytes bytes);

}  // namespace headroom::gpu

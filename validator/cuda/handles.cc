#include "validator/cuda/handles.h"

namespace headroom::gpu {

Result<StreamHandle> make_stream() {
  cudaStream_t stream = nullptr;
  HEADROOM_TRY(HEADROOM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)));
  return StreamHandle(stream);
}

Result<EventHandle> make_event(bool timing) {
  cudaEvent_t event = nullptr;
  unsigned flags = timing ? cudaEventDefault : cudaEventDisableTiming;
  HEADROOM_TRY(HEADROOM_CUDA(cudaEventCreateWithFlags(&event, flags)));
  return EventHandle(event);
}

Result<DeviceBlock> make_device_block(Bytes bytes) {
  void* address = nullptr;
  HEADROOM_TRY(HEADROOM_CUDA(cudaMalloc(&address, static_cast<std::size_t>(bytes))));
  return DeviceBlock(address);
}

Result<PinnedBlock> make_pinned_block(Bytes bytes) {
  void* address = nullptr;
  HEADROOM_TRY(HEADROOM_CUDA(cudaHostAlloc(&address, static_cast<std::size_t>(bytes), cudaHostAllocDefault)));
  return PinnedBlock(address);
}

}  // namespace headroom::gpu

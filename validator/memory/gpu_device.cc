#include "validator/memory/gpu_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "validator/cuda/device.h"
#include "validator/cuda/driver.h"

namespace headroom::gpu {
namespace {

void* pointer(allocator::Address address) {
  return reinterpret_cast<void*>(address);
}
CUdeviceptr device_pointer(allocator::Address address) {
  return static_cast<CUdeviceptr>(address);
}

CUmemAllocationProp properties(int ordinal) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = ordinal;
  return prop;
}

}  // namespace

Result<cudaStream_t> Streams::get(std::uint32_t index) {
  if (index == 0) return cudaStream_t{nullptr};
  auto at = made_.find(index);
  if (at == made_.end()) {
    HEADROOM_ASSIGN(StreamHandle stream, make_stream());
    at = made_.emplace(index, std::move(stream)).first;
  }
  return at->second.get();
}

Result<GpuDevice> GpuDevice::create(Streams& streams) {
  int ordinal = 0;
  HEADROOM_TRY(HEADROOM_CUDA(cudaGetDevice(&ordinal)));
  HEADROOM_ASSIGN(const DeviceUse use, device_use());
  HEADROOM_ASSIGN(const Driver* driver, Driver::get());
  const CUmemAllocationProp prop = properties(ordinal);
  std::size_t granularity = 0;
  HEADROOM_TRY(HEADROOM_CUDA(driver->granularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM)));
  return GpuDevice(streams, ordinal, use.total, static_cast<Bytes>(granularity));
}

bool GpuDevice::keep(Status status) {
  if (status) return true;
  if (error_) error_ = std::move(status);
  return false;
}

void GpuDevice::note_use() {
  if (const auto use = device_use())
    highest_use_ = std::max(highest_use_, use->used);
  else
    keep(fail(use.error()));
}

void GpuDevice::reset_highest_use() {
  highest_use_ = 0;
  note_use();
}

Bytes GpuDevice::free_memory() const {
  const auto use = device_use();
  if (use) return use->total - use->used;
  if (error_) error_ = fail(use.error());
  return 0;
}

std::optional<allocator::Address> GpuDevice::allocate(Bytes bytes) {
  if (!error_) return std::nullopt;
  void* address = nullptr;
  const cudaError_t code = cudaMalloc(&address, static_cast<std::size_t>(bytes));
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // an answer, not a failure: the runtime forgets it
    return std::nullopt;
  }
  if (!keep(HEADROOM_CUDA(code))) return std::nullopt;
  note_use();
  return reinterpret_cast<allocator::Address>(address);
}

void GpuDevice::free(allocator::Address address, Bytes) {
  keep(HEADROOM_CUDA(cudaFree(pointer(address))));
}

allocator::Address GpuDevice::reserve(Bytes bytes, bool) {
  CUdeviceptr range = 0;
  if (auto driver = Driver::get(); driver && error_) {
    keep(HEADROOM_CUDA((*driver)->address_reserve(&range, static_cast<std::size_t>(bytes), 0, 0, 0)));
  }
  return static_cast<allocator::Address>(range);
}

void GpuDevice::release(allocator::Address address, Bytes bytes) {
  if (auto driver = Driver::get()) {
    keep(HEADROOM_CUDA((*driver)->address_free(device_pointer(address), static_cast<std::size_t>(bytes))));
  }
}

bool GpuDevice::map_chunk(allocator::Address address, Bytes chunk) {
  const Driver* driver = *Driver::get();
  const CUmemAllocationProp prop = properties(ordinal_);
  CUmemGenericAllocationHandle handle{};
  const auto size = static_cast<std::size_t>(chunk);
  const CUresult code = driver->create(&handle, size, &prop, 0);
  if (code == CUDA_ERROR_OUT_OF_MEMORY) return false;
  if (!keep(HEADROOM_CUDA(code))) return false;
  const bool mapped = keep(HEADROOM_CUDA(driver->map(device_pointer(address), size, 0, handle, 0)));
  // The mapping keeps the memory alive; without the handle, unmapping gives it back.
  return keep(HEADROOM_CUDA(driver->release(handle))) && mapped;
}

bool GpuDevice::map(allocator::Address address, Bytes bytes, Bytes chunk) {
  if (!error_ || address == 0) return false;
  for (Bytes done = 0; done < bytes; done += chunk) {
    if (map_chunk(address + done, chunk)) continue;
    if (done > 0) unmap(address, done, chunk);
    return false;
  }
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = ordinal_;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  note_use();
  const Driver* driver = *Driver::get();
  return keep(HEADROOM_CUDA(
      driver->set_access(device_pointer(address), static_cast<std::size_t>(bytes), &access, 1)));
}

void GpuDevice::unmap(allocator::Address address, Bytes bytes, Bytes chunk) {
  auto driver = Driver::get();
  if (!driver) return;
  // Work that still uses the memory must be over, as PyTorch ensures too.
  keep(HEADROOM_CUDA(cudaDeviceSynchronize()));
  for (Bytes done = 0; done < bytes; done += chunk) {
    keep(HEADROOM_CUDA((*driver)->unmap(device_pointer(address + done), static_cast<std::size_t>(chunk))));
  }
}

allocator::EventToken GpuDevice::record_event(allocator::Stream stream) {
  auto handle = streams_->get(stream);
  if (!keep(handle ? Status{} : Status(fail(handle.error())))) return 0;
  if (unused_events_.empty()) {
    auto made = make_event(false);
    if (!keep(made ? Status{} : Status(fail(made.error())))) return 0;
    unused_events_.push_back(std::move(*made));
  }
  EventHandle event = std::move(unused_events_.back());
  unused_events_.pop_back();
  keep(HEADROOM_CUDA(cudaEventRecord(event.get(), *handle)));
  const allocator::EventToken token = next_event_++;
  events_.emplace(token, std::move(event));
  return token;
}

bool GpuDevice::event_done(allocator::EventToken token) {
  auto at = events_.find(token);
  if (at == events_.end()) return true;
  const cudaError_t code = cudaEventQuery(at->second.get());
  if (code == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  keep(HEADROOM_CUDA(code));
  unused_events_.push_back(std::move(at->second));
  events_.erase(at);
  return true;
}

void GpuDevice::wait_event(allocator::EventToken token) {
  if (auto at = events_.find(token); at != events_.end()) {
    keep(HEADROOM_CUDA(cudaEventSynchronize(at->second.get())));
  }
}

}  // namespace headroom::gpu

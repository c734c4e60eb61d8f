#include "validator/cuda/nvml.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "validator/cuda/library.h"

namespace headroom::gpu {
namespace {

// The part of NVML's stable binary interface that is used here; its header is not in every CUDA Toolkit.
using Code = int;
using DeviceHandle = void*;
constexpr Code kSuccess = 0, kInsufficientSize = 7;

struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kMemoryV2Version = sizeof(MemoryV2) | (2u << 24);

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};

struct Api {
  Code (*init)() = nullptr;
  const char* (*error_string)(Code) = nullptr;
  Code (*device_by_pci)(const char*, DeviceHandle*) = nullptr;
  Code (*memory)(DeviceHandle, MemoryV2*) = nullptr;
  Code (*processes)(DeviceHandle, unsigned*, ProcessInfo*) = nullptr;
  Code (*driver_version)(char*, unsigned) = nullptr;
};

Status checked(const Api& api, Code code, const char* call) {
  if (code == kSuccess) return {};
  return fail(fmt::format("{} gave {}", call, api.error_string(code)));
}

Result<Api> load() {
  HEADROOM_ASSIGN(Library library, Library::open("NVML", {"libnvidia-ml.so.1"}));
  Api api;
  HEADROOM_TRY(library.find("nvmlInit_v2", api.init));
  HEADROOM_TRY(library.find("nvmlErrorString", api.error_string));
  HEADROOM_TRY(library.find("nvmlDeviceGetHandleByPciBusId_v2", api.device_by_pci));
  HEADROOM_TRY(library.find("nvmlDeviceGetMemoryInfo_v2", api.memory));
  HEADROOM_TRY(library.find("nvmlDeviceGetComputeRunningProcesses_v3", api.processes));
  HEADROOM_TRY(library.find("nvmlSystemGetDriverVersion", api.driver_version));
  HEADROOM_TRY(checked(api, api.init(), "nvmlInit"));
  return api;
}

Result<const Api*> api() {
  static const Result<Api> loaded = load();
  if (!loaded) return fail(loaded.error());
  return &*loaded;
}

Result<std::vector<ProcessInfo>> running(DeviceHandle device) {
  HEADROOM_ASSIGN(const Api* calls, api());
  std::vector<ProcessInfo> list(16);
  while (true) {
    auto count = static_cast<unsigned>(list.size());
    Code code = calls->processes(device, &count, list.data());
    if (code == kInsufficientSize) {
      list.resize(list.size() * 2);
      continue;
    }
    HEADROOM_TRY(checked(*calls, code, "nvmlDeviceGetComputeRunningProcesses"));
    list.resize(count);
    return list;
  }
}

// NVML writes all ones where it cannot tell.
Bytes known(unsigned long long bytes) {
  return bytes == ~0ULL ? 0 : static_cast<Bytes>(bytes);
}

}  // namespace

Result<Nvml> Nvml::open(const std::string& pci_bus_id) {
  HEADROOM_ASSIGN(const Api* calls, api());
  DeviceHandle device = nullptr;
  HEADROOM_TRY(
      checked(*calls, calls->device_by_pci(pci_bus_id.c_str(), &device), "nvmlDeviceGetHandleByPciBusId"));
  return Nvml(device);
}

Result<CardMemory> Nvml::memory() const {
  HEADROOM_ASSIGN(const Api* calls, api());
  MemoryV2 m{};
  m.version = kMemoryV2Version;
  HEADROOM_TRY(checked(*calls, calls->memory(device_, &m), "nvmlDeviceGetMemoryInfo_v2"));
  return CardMemory{.total = static_cast<Bytes>(m.total),
                    .used = static_cast<Bytes>(m.used),
                    .reserved = static_cast<Bytes>(m.reserved),
                    .free = static_cast<Bytes>(m.free)};
}

Result<Bytes> Nvml::process_memory(unsigned pid) const {
  HEADROOM_ASSIGN(const std::vector<ProcessInfo> list, running(device_));
  for (const ProcessInfo& p : list) {
    if (p.pid == pid) return known(p.used_memory);
  }
  return Bytes{0};
}

Result<Bytes> Nvml::other_processes(unsigned pid) const {
  HEADROOM_ASSIGN(const std::vector<ProcessInfo> list, running(device_));
  Bytes sum = 0;
  for (const ProcessInfo& p : list) {
    if (p.pid != pid) sum += known(p.used_memory);
  }
  return sum;
}

Result<std::string> Nvml::driver_version() const {
  HEADROOM_ASSIGN(const Api* calls, api());
  std::array<char, 96> text{};
  HEADROOM_TRY(
      checked(*calls, calls->driver_version(text.data(), text.size()), "nvmlSystemGetDriverVersion"));
  return std::string(text.data());
}

}  // namespace headroom::gpu

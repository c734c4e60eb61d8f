#pragma once

#include <string>

#include "models/base/bytes.h"
#include "models/base/result.h"

namespace headroom::gpu {

/// Memory of a whole card as NVML counts it. `used` holds what every process uses and leaves out what the
/// driver reserves for itself.
struct CardMemory {
  Bytes total = 0, used = 0, reserved = 0, free = 0;
};

/// NVML (libnvidia-ml, part of the driver), loaded at run time; it reads and changes nothing.
class Nvml {
 public:
  /// Opens the card with this PCI address (`0000:3b:00.0`).
  static Result<Nvml> open(const std::string& pci_bus_id);

  Nvml(Nvml&& other) noexcept : device_(other.device_) { other.device_ = nullptr; }
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml() = default;

  Result<CardMemory> memory() const;
  /// Device memory of one process; 0 when NVML does not list it, as in containers that hide process ids.
  Result<Bytes> process_memory(unsigned pid) const;
  /// Device memory of all listed compute processes but `pid`.
  Result<Bytes> other_processes(unsigned pid) const;
  Result<std::string> driver_version() const;

 private:
  explicit Nvml(void* device) : device_(device) {}
  void* device_;
};

}  // namespace headroom::gpu

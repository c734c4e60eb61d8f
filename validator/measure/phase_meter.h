#pragma once

#include <chrono>
#include <optional>

#include "validator/cuda/nvml.h"
#include "validator/memory/gpu_device.h"
#include "validator/probe.h"

namespace headroom::gpu {

/// Resident bytes of this process, from /proc; 0 where there is none.
Bytes resident_bytes();

/// Takes what the driver and the system count around one phase after the other.
class PhaseMeter {
 public:
  /// `device` outlives the meter. Without NVML its figures stay 0.
  PhaseMeter(GpuDevice& device, std::optional<Nvml> nvml) : device_(device), nvml_(std::move(nvml)) {}

  Status begin();
  /// Waits for the card first.
  Result<PhaseMeasurement> end(Bytes pinned);

 private:
  GpuDevice& device_;
  std::optional<Nvml> nvml_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace headroom::gpu

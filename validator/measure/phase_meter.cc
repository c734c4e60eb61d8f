#include "validator/measure/phase_meter.h"

#include <unistd.h>

#include <fstream>

#include "validator/cuda/device.h"

namespace headroom::gpu {

Bytes resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  Bytes size = 0, resident = 0;
  statm >> size >> resident;
  return statm ? resident * static_cast<Bytes>(sysconf(_SC_PAGESIZE)) : 0;
}

Status PhaseMeter::begin() {
  HEADROOM_TRY(HEADROOM_CUDA(cudaDeviceSynchronize()));
  device_.reset_highest_use();
  began_ = std::chrono::steady_clock::now();
  return {};
}

Result<PhaseMeasurement> PhaseMeter::end(Bytes pinned) {
  HEADROOM_TRY(HEADROOM_CUDA(cudaDeviceSynchronize()));
  PhaseMeasurement out;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  HEADROOM_ASSIGN(const DeviceUse use, device_use());
  out.card_end = use.used;
  out.card_peak = std::max(device_.highest_use(), use.used);
  out.host_resident = resident_bytes();
  out.pinned = pinned;
  if (!nvml_) return out;
  const auto pid = static_cast<unsigned>(getpid());
  HEADROOM_ASSIGN(const CardMemory card, nvml_->memory());
  HEADROOM_ASSIGN(out.nvml_process, nvml_->process_memory(pid));
  HEADROOM_ASSIGN(out.nvml_others, nvml_->other_processes(pid));
  out.nvml_card = card.used;
  return out;
}

}  // namespace headroom::gpu

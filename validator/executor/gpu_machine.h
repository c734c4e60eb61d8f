#pragma once

#include <memory>

#include "simulator/phases/machine.h"
#include "validator/measure/phase_meter.h"
#include "validator/memory/gpu_memory.h"

namespace headroom::gpu {

/// One card as the machine of a run: real memory, work between the allocations, measured phases.
class GpuMachine final : public Machine {
 public:
  /// All outlive the machine; `out` gains the phases.
  GpuMachine(GpuDevice& device, Streams& streams, Worker& worker, PhaseMeter meter, Probe& out)
      : device_(device), streams_(streams), worker_(worker), meter_(std::move(meter)), out_(out) {}

  allocator::Device& device() override { return device_; }
  Memory& attach(SimulatedMemory& accounts) override;
  void detach() override { memory_.reset(); }
  Status begin_phase() override;
  Status end_phase(PhaseReport& row) override;

 private:
  GpuDevice& device_;
  Streams& streams_;
  Worker& worker_;
  PhaseMeter meter_;
  Probe& out_;
  std::unique_ptr<GpuMemory> memory_;
};

}  // namespace headroom::gpu

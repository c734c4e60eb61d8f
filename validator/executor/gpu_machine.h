#pragma once

#include <map>
#include <memory>
#include <string>

#include "simulator/phases/machine.h"
#include "validator/cuda/group.h"
#include "validator/measure/phase_meter.h"
#include "validator/memory/gpu_memory.h"
#include "validator/memory/neighbour.h"

namespace headroom::gpu {

/// Opens `count` communicators over the present ranks and adds them to what `out` says is present.
Status open_groups(Groups& groups, std::int64_t count, Present& out);

/// One card as the machine of a run: real memory, work between the allocations, measured phases.
class GpuMachine final : public Machine {
 public:
  /// All outlive the machine; `out` gains the phases.
  /// `groups`: where other ranks are present.
  GpuMachine(GpuDevice& device, Groups* groups, Streams& streams, Worker& worker, WorkLedger& ledger,
             PhaseMeter meter, int ordinal, Probe& out)
      : device_(device),
        groups_(groups),
        streams_(streams),
        worker_(worker),
        ledger_(ledger),
        meter_(std::move(meter)),
        ordinal_(ordinal),
        out_(out) {}

  allocator::Device& device() override { return device_; }
  Memory& attach(SimulatedMemory& accounts) override;
  void make_communicator() override;
  void detach() override { memory_.reset(); }
  Status begin_phase() override;
  Result<bool> neighbour(const std::string& process, Bytes highest, Bytes after) override;
  Status end_phase(PhaseReport& row) override;

 private:
  GpuDevice& device_;
  Groups* groups_;
  Streams& streams_;
  Worker& worker_;
  WorkLedger& ledger_;
  PhaseMeter meter_;
  int ordinal_;
  Probe& out_;
  std::map<std::string, Neighbour> neighbours_;
  std::unique_ptr<GpuMemory> memory_;
  Status communicators_;  ///< of the last one that was made
};

}  // namespace headroom::gpu

#include "validator/executor/gpu_machine.h"

#include "validator/cuda/device.h"

namespace headroom::gpu {

Status open_groups(Groups& groups, std::int64_t count, Present& out) {
  HEADROOM_ASSIGN(const DeviceUse before, device_use());
  HEADROOM_ASSIGN(out.communicators, groups.open(count));
  HEADROOM_ASSIGN(const DeviceUse after, device_use());
  out.communicator_bytes += after.used - before.used;
  return {};
}

void GpuMachine::make_communicator() {
  if (groups_ == nullptr || !communicators_) return;
  communicators_ = open_groups(*groups_, 1, out_.present);
  device_.note_use();
}

Memory& GpuMachine::attach(SimulatedMemory& accounts) {
  memory_ = std::make_unique<GpuMemory>(accounts, device_, streams_, worker_, ledger_);
  return *memory_;
}

Status GpuMachine::begin_phase() {
  return meter_.begin();
}

Result<bool> GpuMachine::neighbour(const std::string& process, Bytes highest, Bytes after) {
  auto at = neighbours_.find(process);
  if (at == neighbours_.end()) {
    HEADROOM_ASSIGN(Neighbour started, Neighbour::start(ordinal_));
    out_.neighbours[process] = started.context();
    at = neighbours_.emplace(process, std::move(started)).first;
  }
  for (const Bytes bytes : {highest, after}) {
    HEADROOM_ASSIGN(const bool held, at->second.hold(bytes));
    device_.note_use();
    if (!held) return false;
  }
  return true;
}

Status GpuMachine::end_phase(PhaseReport& row) {
  HEADROOM_TRY(memory_->error());
  HEADROOM_TRY(device_.error());
  HEADROOM_TRY(communicators_);
  HEADROOM_ASSIGN(PhaseMeasurement measured, meter_.end(memory_->pinned()));
  measured.step = row.step;
  measured.phase = row.phase;
  row.seconds = measured.seconds;
  row.peak_device = measured.card_peak;
  out_.phases.push_back(std::move(measured));
  return {};
}

}  // namespace headroom::gpu

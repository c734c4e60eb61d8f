#include "validator/executor/gpu_machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include "simulator/phases/simulate.h"
#include "validator/cuda/device.h"

namespace headroom::gpu {

Memory& GpuMachine::attach(SimulatedMemory& accounts) {
  memory_ = std::make_unique<GpuMemory>(accounts, device_, streams_, worker_);
  return *memory_;
}

Status GpuMachine::begin_phase() {
  return meter_.begin();
}

Status GpuMachine::end_phase(PhaseReport& row) {
  HEADROOM_TRY(memory_->error());
  HEADROOM_TRY(device_.error());
  HEADROOM_ASSIGN(PhaseMeasurement measured, meter_.end(memory_->pinned()));
  measured.step = row.step;
  measured.phase = row.phase;
  row.seconds = measured.seconds;
  row.peak_device = measured.card_peak;
  row.processes.front().outside = measured.card_peak - row.processes.front().peak_reserved;
  out_.phases.push_back(std::move(measured));
  return {};
}

Result<Probe> probe(const Job& job, const tape::DeviceTraits& traits, int ordinal) {
  HEADROOM_TRY(card_count());
  Probe out;
  // NVML needs no context, so what others use can be asked for before there is one.
  char bus[32] = {};
  HEADROOM_TRY(HEADROOM_CUDA(cudaDeviceGetPCIBusId(bus, sizeof(bus), ordinal)));
  std::optional<Nvml> nvml;
  if (auto opened = Nvml::open(bus)) nvml.emplace(std::move(*opened));
  if (nvml) {
    if (auto before = nvml->memory()) out.used_by_others = before->used;
    if (auto version = nvml->driver_version()) out.versions["driver"] = *version;
  }
  HEADROOM_ASSIGN(const Card card, open_card(ordinal));
  out.gpu = card.name;
  out.versions["cuda"] = fmt::format("{}.{}", card.runtime_cuda / 1000, card.runtime_cuda / 10 % 100);
  Streams streams;
  HEADROOM_ASSIGN(Worker worker, Worker::create(streams));
  HEADROOM_ASSIGN(GpuDevice device, GpuDevice::create(streams));
  HEADROOM_ASSIGN(const DeviceUse use, device_use());
  out.outside = use.used - out.used_by_others;
  GpuMachine machine(device, streams, worker, PhaseMeter(device, std::move(nvml)), out);
  SimulateOptions options;
  options.traits = traits;
  options.machine = &machine;
  HEADROOM_ASSIGN(out.report, simulate(job, options));
  for (const auto& [kind, count] : worker.counts())
    out.work[kind] = {count.operations, count.touched, count.bytes, count.flops};
  out.touched = worker.touched();
  return out;
}

}  // namespace headroom::gpu

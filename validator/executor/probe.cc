#include "validator/probe.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/phases/device_run.h"
#include "validator/calibrate/rates.h"
#include "validator/comparison.h"
#include "validator/cuda/device.h"
#include "validator/executor/gpu_machine.h"

namespace headroom::gpu {
namespace {

// NVML needs no context, so what others use can be asked for before there is one.
Status look_before(const ProbeOptions& options, std::optional<Nvml>& nvml, Probe& out) {
  const int ordinal = options.ordinal;
  HEADROOM_ASSIGN(const int cards, card_count());
  if (ordinal >= cards)
    return fail(fmt::format("GPU {} does not exist: this process sees {}", ordinal, cards));
  char bus[32] = {};
  HEADROOM_TRY(HEADROOM_CUDA(cudaDeviceGetPCIBusId(bus, sizeof(bus), ordinal)));
  if (auto opened = Nvml::open(bus)) nvml.emplace(std::move(*opened));
  if (nvml) {
    if (auto before = nvml->memory()) out.used_by_others = before->used;
    if (auto version = nvml->driver_version()) out.versions["driver"] = *version;
  }
  if (!nvml)
    out.notes.push_back(
        "NVML cannot be used here: memory that other processes hold on the card is not known and counts as "
        "this run's");
  if (options.used_by_others) out.used_by_others = *options.used_by_others;
  return {};
}

}  // namespace

Result<Probe> probe(const Job& job, const ProbeOptions& options) {
  Probe out;
  std::optional<Nvml> nvml;
  HEADROOM_TRY(look_before(options, nvml, out));
  HEADROOM_ASSIGN(const Card card, open_card(options.ordinal));
  out.gpu = card.name;
  out.versions["cuda"] = fmt::format("{}.{}", card.runtime_cuda / 1000, card.runtime_cuda / 10 % 100);
  out.present.of_job = job.pools.empty() ? 1 : job.pools.front().gpus();
  std::optional<Groups> groups;
  if (options.ranks != nullptr && options.ranks->place().ranks > 1) {
    out.present.ranks = options.ranks->place().ranks;
    out.present.rank = options.ranks->place().rank;
    groups.emplace(*options.ranks);
    // Where the program makes none, all are there before its first tensor; NCCL is used in any case.
    const std::int64_t wanted = job.processes.empty() ? 0 : job.processes.front().communicators;
    if (!makes_communicators(job))
      HEADROOM_TRY(open_groups(*groups, std::max<std::int64_t>(wanted, 1), out.present));
    HEADROOM_ASSIGN(out.versions["nccl"], nccl_version());
  }
  Streams streams;
  WorkLedger ledger(options.hardware);
  HEADROOM_ASSIGN(Worker worker, Worker::create(streams, groups ? &*groups : nullptr));
  HEADROOM_ASSIGN(GpuDevice device, GpuDevice::create(streams));
  HEADROOM_ASSIGN(const DeviceUse use, device_use());
  out.outside = use.used - out.used_by_others;
  const Bytes opened = out.present.communicator_bytes;
  GpuMachine machine(device, groups ? &*groups : nullptr, streams, worker, ledger,
                     PhaseMeter(device, std::move(nvml)), options.ordinal, out);
  HEADROOM_ASSIGN(out.report, run_on_device(job, options.hardware, machine));
  if (groups) HEADROOM_TRY(groups->close(ran_out(out.report)));
  out.outside += out.present.communicator_bytes - opened;
  out.work = ledger.summary();
  if (Measurements timed; measure_latency(timed)) out.launch = timed.rates.back().seconds;
  return out;
}

}  // namespace headroom::gpu

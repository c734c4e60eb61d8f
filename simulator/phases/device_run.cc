#include "simulator/phases/device_run.h"

#include <algorithm>
#include <utility>

#include "simulator/phases/phase_interpreter.h"
#include "simulator/phases/trainer_process.h"

namespace headroom {

std::vector<GpuKind> gpu_kinds(const Job& job) {
  std::vector<GpuKind> out;
  for (const Pool& pool : job.pools) {
    std::int64_t kinds = 1;
    for (const Role& role : job.roles) {
      const Process* process = job.process_of(role.name);
      const bool here = process == nullptr ? &pool == &job.pools.front() : process->pool == pool.name;
      if (here && role.sharding.kind == ShardingKind::megatron && pool.gpus() % role.parallel.pipeline == 0)
        kinds = std::max(kinds, role.parallel.pipeline);
    }
    const std::int64_t alike = pool.gpus() / kinds;
    for (std::int64_t kind = 0; kind < kinds; ++kind) {
      GpuKind& added = out.emplace_back(GpuKind{&pool, kind * alike, alike});
      if (added.holds(job.rank)) added.followed = job.rank - added.rank;
    }
  }
  return out;
}

std::vector<GpuKind> gpu_kinds_by_shard(const Job& job) {
  std::vector<GpuKind> out;
  for (const GpuKind& kind : gpu_kinds(job)) {
    // Ranks that hold the same part stand together: those that cut the tensors.
    std::int64_t same = kind.alike;
    for (const Role& role : job.roles) {
      const Process* process = job.process_of(role.name);
      const bool here =
          process == nullptr ? kind.pool == &job.pools.front() : process->pool == kind.pool->name;
      if (here && role.trained && role.sharding.kind == ShardingKind::megatron &&
          role.sharding.distributed_optimizer && role.parallel.tensor > 0)
        same = std::min(same, role.parallel.tensor);
    }
    if (same >= kind.alike) {
      out.push_back(kind);
      continue;
    }
    out.push_back({kind.pool, kind.rank, kind.alike - same, std::min(kind.followed, kind.alike - same - 1)});
    out.push_back({kind.pool, kind.rank + kind.alike - same, same});
  }
  return out;
}

Result<Report> run_on_device(const Job& job, const Hardware& hardware, Fidelity fidelity) {
  return run_on_device(job, hardware, program_over(fidelity),
                       fidelity == Fidelity::live_bytes ? "closed_form" : "simulator");
}

bool makes_communicators(const Job& job) {
  return std::any_of(job.roles.begin(), job.roles.end(),
                     [](const Role& role) { return is_zero(role.sharding.kind); });
}

Result<Report> run_on_device(const Job& job, const Hardware& hardware, Machine& machine) {
  HEADROOM_TRY(validate_job(job));
  std::vector<GpuRun> runs(1);
  HEADROOM_ASSIGN(runs.front(),
                  run_gpu(job, hardware, program_on(machine), gpu_kinds(job).front(), {.machine = &machine}));
  return report_of(job, "gpu", std::move(runs));
}

Result<Report> run_on_device(const Job& job, const Hardware& hardware, const MakeTrainer& make_trainer,
                             std::string executor, bool goes_on_without_engines) {
  HEADROOM_TRY(validate_job(job));
  HEADROOM_ASSIGN(std::vector<GpuRun> runs,
                  run_gpus(job, hardware, make_trainer, gpu_kinds(job),
                           {.goes_on_without_engines = goes_on_without_engines}));
  return report_of(job, std::move(executor), std::move(runs));
}

}  // namespace headroom

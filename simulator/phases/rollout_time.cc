#include "simulator/phases/rollout_time.h"

#include "simulator/engine/generation/continuous_batch.h"

namespace headroom {

Seconds rollout_seconds(const Job& job, const Engine& engine, const engine::Account& account,
                        const Hardware& hardware) {
  if (engine.model == nullptr || job.pools.empty() || hardware.memory_bandwidth <= 0) return {};
  const engine::RequestLoad load = engine::load_of(job, engine, account);
  const engine::TokenSteps steps(engine, account, hardware, job.pools.front().gpus_per_node);
  return engine::generation_seconds(load, steps) * (1 / load.batches);
}

}  // namespace headroom

#include "simulator/phases/rollout_time.h"

#include <algorithm>

#include "simulator/time/rates.h"

namespace headroom {

double rollout_seconds(const Job& job, const Engine& engine, const engine::Account& account,
                       const Hardware& hardware) {
  if (engine.model == nullptr || job.pools.empty()) return 0;
  std::int64_t gpus = job.pools.front().gpus();
  for (const Process& process : job.processes)
    if (process.engine == engine.name)
      if (const Pool* pool = job.pool(process.pool)) gpus = pool->gpus();
  const std::int64_t ranks = std::max<std::int64_t>(1, engine.tensor * engine.pipeline * engine.data);
  const std::int64_t replicas = std::max<std::int64_t>(1, gpus / ranks);
  const std::int64_t sequences = ceil_div(job.batch.sequences(), replicas);
  const std::int64_t at_once = std::max<std::int64_t>(
      1, std::min({sequences, engine.max_sequences, std::max<std::int64_t>(1, account.at_once)}));
  const double waves = static_cast<double>(sequences) / static_cast<double>(at_once);

  const double parameters =
      static_cast<double>(engine.model->parameters()) / static_cast<double>(engine.tensor * engine.pipeline);
  const double rate = hardware.matrix.of(engine.weights);
  const double prompt_flops = 2 * parameters * static_cast<double>(sequences * job.batch.prompt_length);
  constexpr double kPrefillShareOfRate = 0.5;
  double seconds = rate > 0 ? prompt_flops / (kPrefillShareOfRate * rate) : 0;

  const double middle =
      static_cast<double>(job.batch.prompt_length) + static_cast<double>(job.batch.response_length) / 2;
  const double per_token =
      account.tokens > 0 ? static_cast<double>(account.kv) / static_cast<double>(account.tokens) : 0;
  const auto read = static_cast<Bytes>(static_cast<double>(account.weights) +
                                       per_token * middle * static_cast<double>(at_once));
  double step = std::max(memory_seconds(hardware, read),
                         rate > 0 ? 2 * parameters * static_cast<double>(at_once) / rate : 0);
  if (engine.tensor > 1) {
    const Bytes message = at_once * engine.model->decoder.hidden * element_size(engine.weights);
    step +=
        2.0 * static_cast<double>(engine.model->decoder.layers) *
        collective_seconds(hardware, Collective::all_reduce, message, {.ranks = engine.tensor, .nodes = 1});
  }
  // Without CUDA graphs each operation is dispatched: about ten a layer.
  if (!engine.graphs)
    step = std::max(step,
                    10.0 * static_cast<double>(engine.model->decoder.layers) * hardware.latencies.operation);
  return seconds + waves * static_cast<double>(job.batch.response_length) * step;
}

}  // namespace headroom

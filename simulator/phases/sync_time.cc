#include "simulator/phases/sync_time.h"

#include <algorithm>

#include "simulator/engine/generation/model_parts.h"
#include "simulator/job/batching.h"
#include "simulator/time/rates.h"

namespace headroom {
namespace {

/// How a tensor's parts lie: over ranks that each have a part, and over pipeline stages of which one has it.
struct Spread {
  std::int64_t ranks = 1, stages = 1;
  bool whole = false;  ///< a rank's part is a tensor of its own: an expert's
};

Spread spread_of(const Job& job, const Role& role, bool routed) {
  const auto& p = role.parallel;
  const auto least_one = [](std::int64_t value) { return std::max<std::int64_t>(1, value); };
  if (role.sharding.kind != ShardingKind::megatron) return {least_one(shard_group_size(job, role)), 1, false};
  if (routed) return {least_one(p.expert), least_one(p.pipeline), true};
  return {least_one(p.tensor), least_one(p.pipeline), false};
}

const Pool* pool_of(const Job& job, const Engine& engine) {
  for (const Process& process : job.processes)
    if (process.engine == engine.name) return job.pool(process.pool);
  return nullptr;
}

}  // namespace

Seconds sync_seconds(const Job& job, const Role& role, const Engine& engine, const Hardware& hardware) {
  Seconds out;
  if (role.model == nullptr || job.pools.empty() || hardware.memory_bandwidth <= 0) return out;
  if (engine.sync.adapters_only) return out;  // small, and the program's own
  const engine::ModelParts parts(*role.model);
  const HostTimes& host = hardware.host_times;
  const double call = hardware.latencies.collective + host.allocation + host.launch;
  const double placed = 2 * (host.allocation + host.launch);  // the engine's: cut out a part, copy it
  const std::int64_t node = std::max<std::int64_t>(1, job.pools.front().gpus_per_node);
  const double width = element_size(engine.sync.dtype);
  for (const bool routed : {false, true}) {
    const double tensors = routed ? parts.routed_tensors() : parts.tensors() - parts.routed_tensors();
    const double bytes = width * (routed ? parts.routed() : parts.all() - parts.routed());
    if (tensors <= 0) continue;
    const Spread spread = spread_of(job, role, routed);
    const auto nodes = [node](std::int64_t ranks, std::int64_t apart) {
      return std::min(ranks, ceil_div(ranks * apart, node));
    };
    // A call brings together what its ranks have: parts of one tensor, or as many tensors.
    const double calls = tensors / (spread.whole ? static_cast<double>(spread.ranks) : 1);
    const double each = bytes / calls;
    out[Spent::host] += tensors * placed;
    if (spread.ranks > 1) {
      out[Spent::host] += calls * call;
      out[Spent::network] +=
          calls * collective_seconds(hardware, Collective::all_gather, static_cast<Bytes>(each),
                                     {.ranks = spread.ranks, .nodes = nodes(spread.ranks, 1)});
    }
    if (spread.stages > 1) {  // of a part each, before
      out[Spent::host] += calls * call;
      out[Spent::network] +=
          calls * collective_seconds(hardware, Collective::broadcast,
                                     static_cast<Bytes>(each / static_cast<double>(spread.ranks)),
                                     {.ranks = spread.stages, .nodes = nodes(spread.stages, spread.ranks)});
    }
  }
  const Pool* pool = pool_of(job, engine);
  if (pool != nullptr && pool->name != job.pools.front().name) {
    RankGroup ring{.ranks = 2, .nodes = 2};
    if (engine.sync.every_rank)
      ring = {.ranks = job.pools.front().gpus() + pool->gpus(), .nodes = job.pools.front().nodes + pool->nodes};
    out[Spent::network] +=
        collective_seconds(hardware, Collective::broadcast, static_cast<Bytes>(width * parts.all()), ring);
  }
  return out;
}

}  // namespace headroom

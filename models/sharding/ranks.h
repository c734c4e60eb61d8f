#pragma once

#include <cstdint>

#include "models/base/result.h"
#include "models/sharding/parallel.h"

namespace headroom {

/// Where a rank stands in Megatron's two grids: dense weights lie over tensor × context × data × pipeline,
/// routed experts over expert_tensor × expert × expert_data × pipeline, the former fastest, of the same
/// ranks.
struct RankPlace {
  std::int64_t tensor = 0, context = 0, data = 0, pipeline = 0;
  std::int64_t expert_tensor = 0, expert = 0, expert_data = 0;
  bool operator==(const RankPlace&) const = default;
};

/// Sizes of the data-parallel groups that are left of `world` ranks.
struct DataParallel {
  std::int64_t dense = 1;  ///< without context parallelism; the optimizer's shards run over dense × context
  std::int64_t expert = 1;
};

/// Errors name the key whose size does not divide the world.
Result<DataParallel> data_parallel(const Parallel& parallel, std::int64_t world);

/// The place of `rank` in Megatron's default order, tp-cp-ep-dp-pp. `rank` in [0, world).
Result<RankPlace> rank_place(const Parallel& parallel, std::int64_t world, std::int64_t rank);

/// Ranks that cut each expert: `expert_tensor`, or the tensor group when unset.
std::int64_t expert_tensor_of(const Parallel& parallel);

}  // namespace headroom

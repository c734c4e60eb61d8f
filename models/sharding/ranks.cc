#include "models/sharding/ranks.h"

#include <fmt/format.h>

namespace headroom {
namespace {

Result<std::int64_t> quotient(std::int64_t world, std::int64_t product, const char* key) {
  if (product < 1 || world % product != 0)
    return fail(Error{
        .message = fmt::format("expected a divisor of the {} ranks, found a product of {}", world, product),
        .file = {},
        .key = key});
  return world / product;
}

}  // namespace

std::int64_t expert_tensor_of(const Parallel& parallel) {
  return parallel.expert_tensor > 0 ? parallel.expert_tensor : parallel.tensor;
}

Result<DataParallel> data_parallel(const Parallel& parallel, std::int64_t world) {
  DataParallel out;
  HEADROOM_ASSIGN(out.dense, quotient(world, parallel.tensor * parallel.context * parallel.pipeline,
                                      "tensor × context × pipeline"));
  HEADROOM_ASSIGN(out.expert,
                  quotient(world, expert_tensor_of(parallel) * parallel.expert * parallel.pipeline,
                           "expert_tensor × expert × pipeline"));
  return out;
}

Result<RankPlace> rank_place(const Parallel& parallel, std::int64_t world, std::int64_t rank) {
  HEADROOM_ASSIGN(const DataParallel data, data_parallel(parallel, world));
  if (rank < 0 || rank >= world) return fail(fmt::format("expected a rank below {}, found {}", world, rank));
  RankPlace place;
  place.tensor = rank % parallel.tensor;
  place.context = rank / parallel.tensor % parallel.context;
  place.data = rank / (parallel.tensor * parallel.context) % data.dense;
  place.pipeline = rank / (parallel.tensor * parallel.context * data.dense);
  const std::int64_t cut = expert_tensor_of(parallel);
  place.expert_tensor = rank % cut;
  place.expert = rank / cut % parallel.expert;
  place.expert_data = rank / (cut * parallel.expert) % data.expert;
  return place;
}

}  // namespace headroom

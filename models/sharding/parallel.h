#pragma once

#include <cstdint>

namespace headroom {

/// Sizes of the parallel groups. Data parallelism is what is left of the pool.
struct Parallel {
  std::int64_t tensor = 1, pipeline = 1, virtual_pipeline = 1, context = 1, expert = 1;
  std::int64_t expert_tensor = 0;  ///< 0: as tensor
  std::int64_t ulysses = 1;        ///< sequence parallelism over attention heads (FSDP)
  bool sequence = false;           ///< Megatron's sequence parallelism
  std::int64_t first_stage_layers = 0, last_stage_layers = 0;  ///< 0: even
  std::int64_t model() const { return tensor * pipeline * context; }
  bool account_for_embedding = false;  ///< the embedding takes the place of one layer in the first stage
  bool account_for_loss = false;       ///< the loss takes the place of one layer in the last stage
  bool operator==(const Parallel&) const = default;
};

}  // namespace headroom

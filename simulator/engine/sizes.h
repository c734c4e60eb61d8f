#pragma once

#include <cstdint>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "simulator/job/engine.h"

namespace headroom::engine {

/// The model's sizes on one GPU of an engine: the most loaded rank of its tensor and pipeline groups.
struct ModelSizes {
  Bytes weights = 0;  ///< with padded vocabulary and LoRA slots

  /// KV cache. Layers of one kind (full or sliding window) form groups of equal size that share block
  /// numbers; a block number holds `page` bytes in each layer of a group.
  Bytes page = 0;                 ///< one layer, one block of `block_size` tokens
  std::int64_t group_layers = 0;  ///< layers a group; a block number costs page × group_layers
  std::int64_t full_groups = 0, sliding_groups = 0;
  std::int64_t window = 0;  ///< tokens of the sliding layers

  std::int64_t layers = 0;      ///< on this GPU
  std::int64_t all_layers = 0;  ///< of the model
  std::int64_t hidden = 0, mlp_hidden = 0, vocabulary = 0;
  std::int64_t expert_hidden = 0, experts_per_token = 0;  ///< 0: dense
};

/// `engine.model` must be set. Errors: a dimension that does not divide by the engine's ranks.
/// A page holds K and V of the local KV heads (at least one: heads are replicated beyond their number), or
/// the latent and the rotary key, which tensor parallelism does not divide.
Result<ModelSizes> model_sizes(const Engine& engine);

/// KV bytes of one token at full attention, all layers of the GPU.
Bytes kv_bytes_per_token(const ModelSizes& sizes, std::int64_t block_size);

/// Block numbers that one request of `tokens` occupies. Sliding layers hold a window plus what one scheduling
/// step adds.
std::int64_t blocks_of_request(const ModelSizes& sizes, const Engine& engine, std::int64_t tokens);

}  // namespace headroom::engine

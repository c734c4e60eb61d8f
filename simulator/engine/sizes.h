#pragma once

#include <cstdint>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "simulator/job/engine.h"

namespace headroom::engine {

/// Which part of a pipeline a GPU serves. Without one, the only stage is first and last.
struct Stage {
  std::int64_t index = 0, of = 1;
  bool first() const { return index == 0; }
  bool last() const { return index + 1 == of; }
};

/// Layers [first, second) of `layers` that `stage` holds: equal shares; what remains goes one each to the
/// stages before the last, from the last but one backwards, as vLLM deals them.
std::pair<std::int64_t, std::int64_t> stage_layers(std::int64_t layers, const Stage& stage);

/// The model's sizes on one GPU of an engine.
struct ModelSizes {
  Bytes weights = 0;  ///< with padded vocabulary, LoRA slots and buffers (weights.h)

  /// KV cache. Layers of one kind (full or sliding window) form groups of equal size that share block
  /// numbers; a block number holds `page` bytes in each layer of a group.
  Bytes page = 0;                 ///< one layer, one block
  std::int64_t block = 0;         ///< tokens of a block; vLLM widens it until a layer's state fits a page
  std::int64_t group_layers = 0;  ///< layers a group; a block number costs page × group_layers
  std::int64_t full_groups = 0, sliding_groups = 0;
  std::int64_t sliding_block = 0;     ///< tokens of a page of sliding layers, where those of full ones are wider
  std::int64_t window = 0;            ///< tokens of the sliding layers
  std::int64_t attention_layers = 0;  ///< on this GPU, full and sliding
  /// Layers that keep a state instead: `state` is one layer's of one sequence. vLLM keeps it in a page of the
  /// same pool, in groups as large as attention's; SGLang in a pool of its own.
  Bytes state = 0;
  std::int64_t state_layers = 0, state_groups = 0;

  Stage stage;
  std::int64_t layers = 0;      ///< on this GPU
  std::int64_t all_layers = 0;  ///< of the model
  std::int64_t hidden = 0, vocabulary = 0;
  std::int64_t mlp_hidden = 0;  ///< of a dense MLP, or of a mixture's shared experts
  bool gated = true;            ///< its MLP has a gate
  std::int64_t expert_hidden = 0, experts_per_token = 0;  ///< 0: dense; expert_hidden: of one rank
  std::int64_t expert_width = 0;  ///< what experts read and write: the hidden size, or a narrower latent
  bool gated_experts = true;

  std::int64_t heads = 0;        ///< of a rank
  std::int64_t accumulated = 0;  ///< elements a head that attention accumulates: value size, or the latent

  /// Images that the start-up profile sends through a vision tower; 0: there is none, or of sizes unknown.
  Bytes image_bytes = 0;  ///< pixels and embeddings alive while the decoder is profiled
  /// Patches of the largest image of a tower that takes any size, its width, and its MLP's tensors' (all ranks).
  std::int64_t image_patches = 0, tower_hidden = 0, tower_mlp = 0;
};

/// `engine.model` must be set. Errors: a dimension that does not divide by the engine's ranks.
/// A page holds K and V of the local KV heads (at least one: heads are replicated beyond their number), or
/// the latent and the rotary key, which tensor parallelism does not divide.
Result<ModelSizes> model_sizes(const Engine& engine, const Stage& stage);

/// The same of the fullest stage: the one whose weights are largest, the later of equal ones (it samples).
Result<ModelSizes> model_sizes(const Engine& engine);

/// KV bytes of one token at full attention, all layers of the GPU.
Bytes kv_bytes_per_token(const ModelSizes& sizes);

/// Block numbers that one request of `tokens` occupies. Sliding layers hold a window plus what one scheduling
/// step adds; layers with a state one page.
std::int64_t blocks_of_request(const ModelSizes& sizes, const Engine& engine, std::int64_t tokens);

}  // namespace headroom::engine

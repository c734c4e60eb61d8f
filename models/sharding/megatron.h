#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/result.h"
#include "models/sharding/megatron_form.h"
#include "models/sharding/parallel.h"
#include "models/sharding/vocabulary.h"

namespace headroom {

/// One parameter of Megatron-Core as a pipeline stage's ranks hold it. TransformerEngine's grouped experts
/// are alike: one entry with `copies` stands for all local ones.
struct MegatronWeight {
  std::string name;  ///< decoder.layers.3.self_attention.linear_qkv.weight; the layer counts over the model
  std::vector<std::int64_t> shape;  ///< on this rank
  std::int64_t copies = 1;
  std::int32_t layer = -1;
  std::int32_t chunk = 0;      ///< virtual stage
  std::int32_t depth = -1;     ///< of multi-token prediction
  bool expert = false;         ///< in the expert grid: its optimizer shards run over the expert-data group
  bool matrix = false;         ///< weight of a matrix product (not embedding, norm, bias, router)
  std::int64_t count() const;  ///< elements of all copies
};

struct MegatronStage {
  std::vector<MegatronWeight> weights;  ///< in order of definition
  std::int64_t dense_elements() const;
  std::int64_t expert_elements() const;
};

/// What each rank of pipeline stage `stage` holds: all its tensor- and expert-parallel ranks hold the same
/// shapes. Query, key and value are one matrix, cut by rows even when key/value heads are fewer than ranks;
/// so are gate and up. Norms, the router, MLA's down projections and the shared expert's gate are whole on
/// every rank; shared experts are cut like dense MLPs; routed experts are dealt out over `expert` and cut
/// over `expert_tensor`. With tied embeddings and more than one stage the last stage has a copy of its own.
/// Sources: Megatron-Core 0.14's module definitions with Transformer Engine layers.
/// Errors: what does not divide, by key; parallel attention and MLP (GPT-NeoX, Falcon, …), which Megatron
/// lacks.
/// `mtp_layers` of multi-token prediction lie between the last stage's final norm and its head, one more decoder layer
/// each, two norms and a projection; a stage that has them and not the embedding has a copy of that too.
/// With Megatron's own layers norms are modules of their own before attention and MLP, latent attention's
/// down projections are cut, and every local expert has weights of its own; so it has without
/// `grouped_experts`.
Result<MegatronStage> megatron_stage(const Architecture& model, const Parallel& parallel,
                                     const VocabularyRule& rule, std::int64_t stage,
                                     MegatronLayers layers = MegatronLayers::transformer_engine,
                                     bool grouped_experts = true, std::int64_t mtp_layers = 0);

}  // namespace headroom

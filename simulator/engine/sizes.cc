#include "simulator/engine/sizes.h"

#include <algorithm>
#include <vector>

#include "models/kv_cache/kv_cache.h"
#include "models/sharding/tensor_parallel.h"

namespace headroom::engine {
namespace {

TensorCut cut_of(const Engine& engine) {
  TensorCut cut;
  cut.tensor = engine.tensor;
  // Whole experts are dealt out when there is an expert group; otherwise each is cut like a dense MLP.
  cut.expert = engine.expert;
  cut.expert_tensor = engine.expert > 1 ? 1 : engine.tensor;
  cut.vocabulary = VocabularyRule::engine();
  return cut;
}

/// Quantised engines keep linear layers in the narrow type, the rest as 16 bits.
DType stored(const Tensor& tensor, const Engine& engine) {
  const bool linear = tensor.role == TensorRole::linear || tensor.role == TensorRole::experts;
  if (element_size(engine.weights) == 1 && (!linear || tensor.place == Place::head)) return DType::bf16;
  return engine.weights;
}

/// Adapters of `lora_slots` requests at once on every linear layer: both factors, in 16 bits.
Bytes lora_slots(const Tensor& tensor, const Engine& engine) {
  if (engine.lora_slots == 0 || tensor.role != TensorRole::linear || tensor.place != Place::layer) return 0;
  const std::int64_t out = tensor.shape[0], in = tensor.count() / tensor.shape[0];
  return bytes_of(DType::bf16, engine.lora_slots * engine.lora_rank * (in + ceil_div(out, engine.tensor)));
}

Result<Bytes> weights(const Engine& engine) {
  const TensorCut cut = cut_of(engine);
  Bytes layers = 0, first = 0, last = 0, vision = 0;
  for (const Tensor& tensor : engine.model->tensors) {
    // A tied head has no weight of its own, unless it lies on another stage than the embedding.
    if (!tensor.tied_to.empty() && engine.pipeline == 1) continue;
    HEADROOM_ASSIGN(const LocalTensor local, local_tensor(*engine.model, tensor, cut));
    const Bytes bytes = bytes_of(stored(tensor, engine), local.count()) + lora_slots(tensor, engine);
    (tensor.place == Place::layer       ? layers
     : tensor.place == Place::embedding ? first
     : tensor.place == Place::vision    ? vision
                                        : last) += bytes;
  }
  if (engine.pipeline == 1) return layers + first + last + vision;
  const std::int64_t depth = std::max<std::int64_t>(1, engine.model->decoder.layers);
  return layers / depth * ceil_div(depth, engine.pipeline) + std::max(first + vision, last);
}

void set_groups(ModelSizes& sizes, std::int64_t full, std::int64_t sliding) {
  // vLLM: groups as large as the rarer kind, unless the other is at most a quarter larger.
  const std::int64_t few = std::min(full, sliding), many = std::max(full, sliding);
  sizes.group_layers = few == 0 ? many : 4 * many < 5 * few ? many : few;
  sizes.full_groups = ceil_div(full, sizes.group_layers);
  sizes.sliding_groups = ceil_div(sliding, sizes.group_layers);
}

}  // namespace

Result<ModelSizes> model_sizes(const Engine& engine) {
  const Decoder& decoder = engine.model->decoder;
  ModelSizes sizes;
  HEADROOM_ASSIGN(sizes.weights, weights(engine));
  const KvCache cache{.dtype = engine.kv, .tensor = engine.tensor, .block = engine.block_size};
  sizes.all_layers = decoder.layers;
  sizes.layers = ceil_div(decoder.layers, engine.pipeline);
  sizes.hidden = decoder.hidden;
  sizes.vocabulary = decoder.vocabulary;
  std::int64_t full = 0, sliding = 0;
  for (const LayerGroup& group : decoder.groups) {
    const Attention& attention = group.layer.attention;
    (attention.sliding_window > 0 ? sliding : full) += group.count;
    sizes.window = std::max(sizes.window, attention.sliding_window);
    sizes.page = std::max(sizes.page, engine.block_size * kv_bytes_per_token(attention, cache));
    const Mlp& mlp = group.layer.mlp;
    if (mlp.kind == MlpKind::experts) {
      sizes.expert_hidden = std::max(sizes.expert_hidden, mlp.hidden);
      sizes.experts_per_token = std::max(sizes.experts_per_token, mlp.experts_per_token);
      sizes.mlp_hidden = std::max(sizes.mlp_hidden, mlp.shared_hidden);
    } else {
      sizes.mlp_hidden = std::max(sizes.mlp_hidden, mlp.hidden);
    }
  }
  set_groups(sizes, ceil_div(full, engine.pipeline), ceil_div(sliding, engine.pipeline));
  return sizes;
}

Bytes kv_bytes_per_token(const ModelSizes& sizes, std::int64_t block_size) {
  return sizes.page / block_size * sizes.layers;
}

std::int64_t blocks_of_request(const ModelSizes& sizes, const Engine& engine, std::int64_t tokens) {
  const std::int64_t full = ceil_div(tokens, engine.block_size);
  const std::int64_t kept = std::min(tokens, sizes.window - 1 + engine.max_batched_tokens);
  const std::int64_t sliding = sizes.sliding_groups == 0 ? 0 : ceil_div(kept, engine.block_size) + 1;
  return sizes.full_groups * full + sizes.sliding_groups * sliding;
}

}  // namespace headroom::engine

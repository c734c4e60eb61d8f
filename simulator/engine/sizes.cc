#include "simulator/engine/sizes.h"

#include <algorithm>
#include <utility>

#include "models/kv_cache/kv_cache.h"
#include "simulator/engine/weights.h"

namespace headroom::engine {
namespace {

void set_groups(ModelSizes& sizes, std::int64_t full, std::int64_t sliding) {
  // vLLM: groups as large as the rarest kind, unless the most frequent is at most a quarter larger.
  std::int64_t few = 0, many = 0;
  for (const std::int64_t layers : {full, sliding, sizes.state_layers}) {
    if (layers > 0) few = few == 0 ? layers : std::min(few, layers);
    many = std::max(many, layers);
  }
  sizes.group_layers = 4 * many < 5 * few ? many : std::max<std::int64_t>(1, few);
  sizes.full_groups = ceil_div(full, sizes.group_layers);
  sizes.sliding_groups = ceil_div(sliding, sizes.group_layers);
  sizes.state_groups = ceil_div(sizes.state_layers, sizes.group_layers);
}

/// vLLM (HybridAttentionMambaModelConfig): blocks of whole kernel blocks whose page holds a state, where the
/// ones asked for are smaller.
void widen_blocks(ModelSizes& sizes, Bytes token) {
  constexpr std::int64_t kKernelBlock = 16;
  if (sizes.state == 0) return;
  if (token == 0) {
    sizes.page = sizes.state;
    return;
  }
  const std::int64_t needed = kKernelBlock * ceil_div(sizes.state, kKernelBlock * token);
  sizes.block = std::max(sizes.block, needed);
  sizes.page = sizes.block * token;
}

/// The side of the largest image that the processor of a tower for any size lets through: Qwen2-VL's and 2.5's take
/// 16,384 tokens' worth of patches, Qwen3-VL's as many of its larger ones; others' are not known here.
std::int64_t largest_side(const Architecture& model) {
  constexpr std::int64_t kTokensASide = 128;
  const VisionTower& vision = model.vision;
  if (vision.image > 0) return vision.image;
  return model.family.starts_with("qwen") ? kTokensASide * vision.patch * vision.merge : 0;
}

/// The profile fills the encoder's budget (at least one image) with images of the fixed or the largest size: their
/// pixels and what the tower makes of them stay alive while the decoder runs and samples.
void set_images(ModelSizes& sizes, const Architecture& model, std::int64_t budget) {
  const VisionTower& vision = model.vision;
  const std::int64_t pixels = largest_side(model);
  if (vision.blocks == 0 || pixels == 0 || vision.patch == 0) return;
  const std::int64_t side = pixels / vision.patch / vision.merge;
  const std::int64_t tokens = std::max<std::int64_t>(1, side * side);
  const std::int64_t images = std::max<std::int64_t>(1, budget / tokens);
  const std::int64_t frames = vision.image > 0 ? 1 : vision.temporal_patch;  // a patch of one image fills them all
  sizes.image_bytes = bytes_of(DType::bf16, images * frames * vision.channels * pixels * pixels) +
                      bytes_of(DType::bf16, images * tokens * model.decoder.hidden);
  if (vision.image > 0) return;
  sizes.image_patches = images * (pixels / vision.patch) * (pixels / vision.patch);
  sizes.tower_hidden = vision.hidden;
  sizes.tower_mlp = (vision.gated ? 3 : 2) * vision.mlp_hidden;
}

void add_layers(ModelSizes& sizes, const Engine& engine, const LayerGroup& group) {
  const Attention& attention = group.layer.attention;
  const KvCache cache{.dtype = engine.kv, .tensor = engine.tensor, .block = engine.block_size};
  sizes.window = std::max(sizes.window, attention.sliding_window);
  sizes.page = std::max(sizes.page, engine.block_size * kv_bytes_per_token(attention, cache));
  // Narrower pages are widened to the widest: they hold more tokens.
  if (const Bytes token = kv_bytes_per_token(attention, cache); attention.sliding_window > 0 && token > 0)
    sizes.sliding_block = token;
  StateCache states{.tensor = engine.tensor};
  // SGLang's pool is fp32 unless its own option says otherwise.
  if (engine.kind == EngineKind::sglang) states.recurrence = DType::fp32;
  sizes.state = std::max(sizes.state, state_bytes(group.layer.state, states));
  sizes.heads = std::max(sizes.heads, ceil_div(attention.heads, engine.tensor));
  const bool latent = attention.kind == AttentionKind::latent;
  sizes.accumulated = std::max(sizes.accumulated, latent ? attention.kv_rank : attention.value_head_dim);
  const Mlp& mlp = group.layer.mlp;
  if (mlp.kind == MlpKind::experts) {
    const std::int64_t cut = engine.expert > 1 ? 1 : engine.tensor;
    sizes.expert_hidden = std::max(sizes.expert_hidden, ceil_div(mlp.hidden, cut));
    sizes.expert_width = std::max(sizes.expert_width, mlp.latent > 0 ? mlp.latent : engine.model->decoder.hidden);
    sizes.gated_experts = !mlp.plain_experts;
    sizes.experts_per_token = std::max(sizes.experts_per_token, mlp.experts_per_token);
    sizes.mlp_hidden = std::max(sizes.mlp_hidden, mlp.shared_hidden);
  } else if (mlp.kind != MlpKind::none) {
    sizes.mlp_hidden = std::max(sizes.mlp_hidden, mlp.hidden);
    sizes.gated = mlp.kind == MlpKind::gated;
  }
}

}  // namespace

std::pair<std::int64_t, std::int64_t> stage_layers(std::int64_t layers, const Stage& stage) {
  const std::int64_t share = layers / stage.of, rest = layers % stage.of;
  const auto of = [&](std::int64_t index) {
    const std::int64_t from_last = stage.of - 1 - index;  // 0: the last stage
    return share + (from_last >= 1 && from_last <= rest ? 1 : 0);
  };
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < stage.index; ++i) first += of(i);
  return {first, first + of(stage.index)};
}

Result<ModelSizes> model_sizes(const Engine& engine, const Stage& stage) {
  const Decoder& decoder = engine.model->decoder;
  ModelSizes sizes;
  sizes.stage = stage;
  sizes.block = engine.block_size;
  HEADROOM_ASSIGN(sizes.weights, stage_weights(engine, stage));
  const auto [from, to] = stage_layers(decoder.layers, stage);
  sizes.all_layers = decoder.layers;
  sizes.layers = to - from;
  sizes.hidden = decoder.hidden;
  sizes.vocabulary = decoder.vocabulary;
  std::int64_t full = 0, sliding = 0;
  for (const LayerGroup& group : decoder.groups) {
    add_layers(sizes, engine, group);
    const std::int64_t here = std::min(to, group.first + group.count) - std::max(from, group.first);
    const Layer& layer = group.layer;
    std::int64_t none = 0;
    std::int64_t& kind = layer.state.heads > 0                 ? sizes.state_layers
                         : layer.mixer != MixerKind::attention ? none
                         : layer.attention.borrows             ? none
                         : layer.attention.sliding_window > 0  ? sliding
                                                               : full;
    kind += std::max<std::int64_t>(0, here);
  }
  sizes.attention_layers = full + sliding;
  sizes.sliding_block = sizes.sliding_block > 0 ? sizes.page / sizes.sliding_block : sizes.block;
  if (engine.kind == EngineKind::vllm) widen_blocks(sizes, sizes.page / engine.block_size);
  set_groups(sizes, full, sliding);
  set_images(sizes, *engine.model, engine.max_batched_tokens);
  return sizes;
}

Result<ModelSizes> model_sizes(const Engine& engine) {
  HEADROOM_ASSIGN(ModelSizes fullest, model_sizes(engine, Stage{0, engine.pipeline}));
  for (std::int64_t i = 1; i < engine.pipeline; ++i) {
    HEADROOM_ASSIGN(ModelSizes sizes, model_sizes(engine, Stage{i, engine.pipeline}));
    if (sizes.weights >= fullest.weights) fullest = std::move(sizes);
  }
  return fullest;
}

Bytes kv_bytes_per_token(const ModelSizes& sizes) {
  return sizes.page / sizes.block * sizes.attention_layers;
}

std::int64_t blocks_of_request(const ModelSizes& sizes, const Engine& engine, std::int64_t tokens) {
  const std::int64_t full = ceil_div(tokens, sizes.block);
  const std::int64_t kept = std::min(tokens, sizes.window - 1 + engine.max_batched_tokens);
  const std::int64_t sliding = sizes.sliding_groups == 0 ? 0 : ceil_div(kept, sizes.sliding_block) + 1;
  return sizes.full_groups * full + sizes.sliding_groups * sliding + sizes.state_groups;
}

}  // namespace headroom::engine

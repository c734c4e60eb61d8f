#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"
#include "models/architecture/qwen_vl.h"

namespace headroom {
namespace {

constexpr Defaults kDense{.vocabulary = 151936,
                          .intermediate = 22016,
                          .layers = 32,
                          .kv_heads = 32,
                          .head_dim = 128,
                          .max_positions = 128000};
constexpr Defaults kSparse{.vocabulary = 151936,
                           .hidden = 2048,
                           .intermediate = 5632,
                           .layers = 24,
                           .heads = 16,
                           .kv_heads = 16,
                           .max_positions = 128000};

/// Features of three depths of the tower are merged apart and added to the decoder's first layers.
constexpr std::size_t kDepths = 3;

void describe_vision(Config& config, Architecture& model) {
  Config vision = config.section("vision_config");
  if (const auto depths = vision.sizes("deepstack_visual_indexes"); depths && depths->size() != kDepths)
    vision.reject("deepstack_visual_indexes", "expected three depths, as in all public models");
  model.vision = {.block_class = "Qwen3VLVisionBlock",
                  .blocks = vision.size("depth", 27),
                  .hidden = vision.size("hidden_size", 1152),
                  .heads = vision.size("num_heads", 16),
                  .mlp_hidden = vision.size("intermediate_size", 4304),
                  .activation = vision.text("hidden_act", "gelu_pytorch_tanh"),
                  .channels = vision.size("in_channels", 3),
                  .patch = vision.size("patch_size", 16),
                  .temporal_patch = vision.size("temporal_patch_size", 2),
                  .merge = vision.size("spatial_merge_size", 2),
                  .output = vision.size("out_hidden_size", 3584)};
}

/// Rows of the learned position table; an image's own grid is interpolated from it.
std::int64_t position_rows(const VisionTower& tower) {
  return tower.image;
}

Config text_of(Config& config) {
  return config.section("text_config");
}

void read_positions(Config& config, Architecture& model) {
  // The table's rows stand where fixed towers have their image's side.
  model.vision.image = config.section("vision_config").size("num_position_embeddings", 2304);
}

void describe(Config& config, Architecture& model) {
  Config text = text_of(config);
  Decoder& decoder = model.decoder = read_decoder(text, kDense);
  decoder.tied_embeddings = config.flag("tie_word_embeddings", decoder.tied_embeddings);
  Layer layer = read_layer(text, kDense, decoder.hidden);
  layer.attention.query_norm = layer.attention.key_norm = rms_norm(layer.attention.head_dim);
  decoder.groups = equal_layers(decoder.layers, layer);
  describe_vision(config, model);
  read_positions(config, model);
}

void describe_moe(Config& config, Architecture& model) {
  Config text = text_of(config);
  Decoder& decoder = model.decoder = read_decoder(text, kSparse);
  decoder.tied_embeddings = config.flag("tie_word_embeddings", decoder.tied_embeddings);
  Layer layer = read_layer(text, kSparse, decoder.hidden);
  layer.attention.query_norm = layer.attention.key_norm = rms_norm(layer.attention.head_dim);
  decoder.groups = equal_layers(decoder.layers, layer);
  const Mlp experts =
      read_experts(text, {"num_experts", "num_local_experts"}, "moe_intermediate_size",
                   {.experts = 60, .experts_per_token = 4, .hidden = 1408}, kSparse.activation);
  replace_sparse_layers(text, decoder, experts);
  describe_vision(config, model);
  read_positions(config, model);
}

/// What joins merge² patches into one token: behind the tower a norm of a patch, at its depths one of the
/// joined patches.
void write_merger(TensorWriter& out, const std::string& at, bool joined_norm) {
  const VisionTower& tower = out.model().vision;
  const std::int64_t merged = tower.hidden * tower.merge * tower.merge;
  out.norm(at + ".norm", layer_norm(joined_norm ? merged : tower.hidden));
  out.linear(at + ".linear_fc1", merged, merged, Split::column, true);
  out.linear(at + ".linear_fc2", tower.output, merged, Split::row, true);
}

void write_vision(TensorWriter& out) {
  const VisionTower& tower = out.model().vision;
  const std::int64_t width = tower.hidden;
  out.place(Place::vision);
  out.parameter("model.visual.patch_embed.proj.weight",
                {width, tower.channels, tower.temporal_patch, tower.patch, tower.patch});
  out.parameter("model.visual.patch_embed.proj.bias", {width});
  out.parameter("model.visual.pos_embed.weight", {position_rows(tower), width});
  out.buffer("model.visual.rotary_pos_emb.inv_freq", {width / tower.heads / 4}, DType::fp32);
  out.vision_blocks("model.visual.blocks", tower.blocks, [&] {
    out.norm("norm1", layer_norm(width));
    out.norm("norm2", layer_norm(width));
    out.linear("attn.qkv", 3 * width, width, Split::column, true);
    out.linear("attn.proj", width, width, Split::row, true);
    out.linear("mlp.linear_fc1", tower.mlp_hidden, width, Split::column, true);
    out.linear("mlp.linear_fc2", width, tower.mlp_hidden, Split::row, true);
  });
  write_merger(out, "model.visual.merger", false);
  for (std::size_t i = 0; i < kDepths; ++i)
    write_merger(out, "model.visual.deepstack_merger_list." + std::to_string(i), true);
}

void write_text(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  out.place(Place::embedding);
  out.embedding("model.language_model.embed_tokens", decoder.vocabulary, decoder.hidden);
  out.layers("model.language_model.layers", [&](const Layer& layer) {
    write_attention(out, "self_attn", layer.attention);
    if (layer.mlp.kind == MlpKind::experts) {
      write_experts(out, "mlp.experts", layer.mlp);
      out.parameter("mlp.gate.weight", {layer.mlp.experts, out.decoder().hidden});
    } else {
      write_gated_mlp(out, "mlp", layer.mlp);
    }
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
  out.norm("model.language_model.norm", decoder.final_norm);
  write_rotary(out, "model.language_model.rotary_emb", decoder);
  out.head("lm_head", "model.language_model.embed_tokens.weight", decoder.hidden);
}

void write(TensorWriter& out) {
  write_vision(out);
  write_text(out);
}

}  // namespace

extern const Family kQwen3Vl;
const Family kQwen3Vl{"qwen3_vl", "Qwen3VLTextDecoderLayer", describe, write, {.begin_token = false}};

extern const Family kQwen3VlMoe;
const Family kQwen3VlMoe{
    "qwen3_vl_moe", "Qwen3VLMoeTextDecoderLayer", describe_moe, write, {.begin_token = false}};

}  // namespace headroom

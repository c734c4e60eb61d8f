#include <algorithm>
#include <cmath>

#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/gemma.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 262208,
                             .hidden = 2304,
                             .intermediate = 9216,
                             .layers = 26,
                             .heads = 8,
                             .kv_heads = 4,
                             .head_dim = 256,
                             .max_positions = 131072,
                             .activation = "gelu_pytorch_tanh",
                             .tied = true};

/// Gemma 2's layer without caps and with norms on each query and key head; five layers of six slide.
void describe_text(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.residual = ResidualKind::sandwich;
  layer.attention_post_norm = layer.mlp_post_norm = rms_norm(decoder.hidden);
  layer.attention.query_norm = layer.attention.key_norm = rms_norm(layer.attention.head_dim);
  layer.attention.softcap = config.number_or_none("attn_logit_softcapping", 0);
  decoder.logits_softcap = config.number_or_none("final_logit_softcapping", 0);
  apply_gemma(decoder, layer);
  const SlidingRule rule{.window = config.size_or_none("sliding_window", 4096),
                         .full_every = config.size("sliding_window_pattern", 6)};
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, rule);
}

/// Patches along a side that average pooling makes one token of: an image becomes `mm_tokens_per_image` tokens.
std::int64_t pooled_side(Config& config, Config& vision) {
  const std::int64_t patches = vision.size("image_size", 224) / vision.size("patch_size", 16);
  const auto side = static_cast<std::int64_t>(
      std::sqrt(static_cast<double>(config.size("mm_tokens_per_image", 256))));
  return std::max<std::int64_t>(1, patches / std::max<std::int64_t>(1, side));
}

/// SigLIP's encoder; its pooling head is there unless `vision_use_head` is false.
void describe_both(Config& config, Architecture& model) {
  if (!config.has("text_config")) config.reject("text_config", "expected the decoder's sizes, found none");
  Config text = config.section("text_config");
  describe_text(text, model);
  model.decoder.tied_embeddings = config.flag("tie_word_embeddings", model.decoder.tied_embeddings);
  Config vision = config.section("vision_config");
  model.vision = {.block_class = "SiglipEncoderLayer",
                  .blocks = vision.size("num_hidden_layers", 12),
                  .hidden = vision.size("hidden_size", 768),
                  .heads = vision.size("num_attention_heads", 12),
                  .mlp_hidden = vision.size("intermediate_size", 3072),
                  .activation = vision.text("hidden_act", "gelu_pytorch_tanh"),
                  .channels = vision.size("num_channels", 3),
                  .patch = vision.size("patch_size", 16),
                  .merge = pooled_side(config, vision),
                  .image = vision.size("image_size", 224),
                  .output = model.decoder.hidden,
                  .pooling_head = vision.flag("vision_use_head", true)};
}

void write_vision_mlp(TensorWriter& out, const std::string& module, const VisionTower& tower) {
  out.linear(module + ".fc1", tower.mlp_hidden, tower.hidden, Split::column, true);
  out.linear(module + ".fc2", tower.hidden, tower.mlp_hidden, Split::row, true);
}

void write_pooling_head(TensorWriter& out, const std::string& module, const VisionTower& tower) {
  const std::int64_t width = tower.hidden;
  out.parameter(module + ".probe", {1, 1, width});
  out.parameter(module + ".attention.in_proj_weight", {3 * width, width});
  out.parameter(module + ".attention.in_proj_bias", {3 * width});
  out.linear(module + ".attention.out_proj", width, width, Split::replicated, true);
  out.norm(module + ".layernorm", layer_norm(width));
  write_vision_mlp(out, module + ".mlp", tower);
}

void write_vision(TensorWriter& out) {
  const VisionTower& tower = out.model().vision;
  const std::int64_t width = tower.hidden;
  const std::int64_t side = tower.image / tower.patch;
  const std::string at = "model.vision_tower.";
  out.place(Place::vision);
  out.parameter(at + "embeddings.patch_embedding.weight", {width, tower.channels, tower.patch, tower.patch});
  out.parameter(at + "embeddings.patch_embedding.bias", {width}, TensorRole::bias);
  out.embedding(at + "embeddings.position_embedding", side * side, width, Split::replicated);
  out.buffer(at + "embeddings.position_ids", {1, side * side}, DType::int64);
  out.vision_blocks(at + "encoder.layers", tower.blocks, [&] {
    out.norm("layer_norm1", layer_norm(width));
    for (const char* name : {"k_proj", "v_proj", "q_proj"})
      out.linear(std::string("self_attn.") + name, width, width, Split::column, true);
    out.linear("self_attn.out_proj", width, width, Split::row, true);
    out.norm("layer_norm2", layer_norm(width));
    write_vision_mlp(out, "mlp", tower);
  });
  out.norm(at + "post_layernorm", layer_norm(width));
  if (tower.pooling_head) write_pooling_head(out, at + "head", tower);
  out.parameter("model.multi_modal_projector.mm_input_projection_weight", {width, tower.output});
  out.norm("model.multi_modal_projector.mm_soft_emb_norm", rms_norm(width));
  out.place(Place::embedding);
}

/// One pair of frequency tables for each type of layer.
void write_rotaries(TensorWriter& out, const std::string& module) {
  bool full = false, sliding = false;
  for (const LayerGroup& group : out.decoder().groups)
    (group.layer.attention.sliding_window > 0 ? sliding : full) = true;
  const std::int64_t size = out.decoder().groups.front().layer.attention.rotary_dim / 2;
  for (const auto& [used, type] : {std::pair{full, "full"}, std::pair{sliding, "sliding"}}) {
    if (!used) continue;
    out.buffer(module + "." + type + "_attention_inv_freq", {size}, DType::fp32);
    out.buffer(module + "." + type + "_attention_original_inv_freq", {size}, DType::fp32);
  }
}

void write_text_at(TensorWriter& out, const std::string& body) {
  const Decoder& decoder = out.decoder();
  out.embedding(body + ".embed_tokens", decoder.vocabulary, decoder.hidden);
  out.buffer(body + ".embed_tokens.embed_scale", {}, DType::fp32);
  out.layers(body + ".layers", [&](const Layer& layer) { write_gemma_layer(out, layer); });
  out.norm(body + ".norm", decoder.final_norm);
  write_rotaries(out, body + ".rotary_emb");
  out.head("lm_head", body + ".embed_tokens.weight", decoder.hidden);
}

void write_text(TensorWriter& out) {
  write_text_at(out, "model");
}

void write_both(TensorWriter& out) {
  write_vision(out);
  write_text_at(out, "model.language_model");
}

}  // namespace

extern const Family kGemma3, kGemma3Text;
const Family kGemma3Text{"gemma3_text", "Gemma3DecoderLayer", describe_text, write_text};
const Family kGemma3{"gemma3", "Gemma3DecoderLayer", describe_both, write_both};

}  // namespace headroom

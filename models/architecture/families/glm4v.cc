#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 151552,
                             .intermediate = 13696,
                             .layers = 40,
                             .kv_heads = 2,
                             .max_positions = 32768,
                             .attention_bias = true};

/// GLM-4's layers behind a tower whose blocks are as wide inside as its result.
void describe(Config& config, Architecture& model) {
  Config text = config.section("text_config"), vision = config.section("vision_config");
  Decoder& decoder = model.decoder = read_decoder(text, kDefaults);
  decoder.tied_embeddings = config.flag("tie_word_embeddings", decoder.tied_embeddings);
  Layer layer = read_layer(text, kDefaults, decoder.hidden);
  layer.attention.output_bias = false;
  layer.attention.rotary_dim = read_rotary_dim(text, layer.attention.head_dim, 0.5);
  layer.mlp.fused_gate_up = true;
  layer.residual = ResidualKind::sandwich;
  layer.attention_post_norm = layer.mlp_post_norm = rms_norm(decoder.hidden);
  decoder.groups = equal_layers(decoder.layers, layer);

  VisionTower& tower = model.vision = {.block_class = "Glm4vVisionBlock",
                                       .blocks = vision.size("depth", 24),
                                       .hidden = vision.size("hidden_size", 1536),
                                       .heads = vision.size("num_heads", 12),
                                       .mlp_hidden = vision.size("intermediate_size", 13696),
                                       .activation = vision.text("hidden_act", "silu"),
                                       .norm = NormKind::rms,
                                       .gated = true,
                                       .channels = vision.size("in_channels", 3),
                                       .patch = vision.size("patch_size", 14),
                                       .temporal_patch = vision.size("temporal_patch_size", 2),
                                       .merge = vision.size("spatial_merge_size", 2),
                                       .output = vision.size("out_hidden_size", 4096)};
  const std::int64_t side = vision.size("image_size", 336) / tower.patch;
  tower.position_rows = side * side;
  if (vision.flag("attention_bias", false))
    vision.reject("attention_bias", "expected false, as in all public models");
}

void write_tower(TensorWriter& out) {
  const VisionTower& tower = out.model().vision;
  const std::int64_t width = tower.hidden, output = tower.output;
  const std::string at = "model.visual.";
  const auto gated = [&](const std::string& module, std::int64_t in, std::int64_t inside) {
    out.linear(module + "gate_proj", inside, in, Split::column);
    out.linear(module + "up_proj", inside, in, Split::column);
    out.linear(module + "down_proj", in, inside, Split::row);
  };
  out.place(Place::vision);
  out.parameter(at + "embeddings.position_embedding.weight", {tower.position_rows, width});
  out.parameter(at + "patch_embed.proj.weight",
                {width, tower.channels, tower.temporal_patch, tower.patch, tower.patch});
  out.parameter(at + "patch_embed.proj.bias", {width});
  out.buffer(at + "rotary_pos_emb.inv_freq", {width / tower.heads / 4}, DType::fp32);
  out.vision_blocks(at + "blocks", tower.blocks, [&] {
    out.norm("norm1", rms_norm(width));
    out.norm("norm2", rms_norm(width));
    out.linear("attn.qkv", 3 * width, width, Split::column);
    out.linear("attn.proj", width, width, Split::row);
    gated("mlp.", width, output);
  });
  out.linear(at + "merger.proj", output, output, Split::replicated);
  out.norm(at + "merger.post_projection_norm", layer_norm(output));
  gated(at + "merger.", output, tower.mlp_hidden);
  out.norm(at + "post_conv_layernorm", rms_norm(width));
  out.parameter(at + "downsample.weight", {output, width, tower.merge, tower.merge});
  out.parameter(at + "downsample.bias", {output});
  out.norm(at + "post_layernorm", rms_norm(width));
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  write_tower(out);
  out.place(Place::embedding);
  out.embedding("model.language_model.embed_tokens", decoder.vocabulary, decoder.hidden);
  out.layers("model.language_model.layers", [&](const Layer& layer) {
    write_llama_layer(out, layer);
    out.norm("post_self_attn_layernorm", layer.attention_post_norm);
    out.norm("post_mlp_layernorm", layer.mlp_post_norm);
  });
  out.norm("model.language_model.norm", decoder.final_norm);
  write_rotary(out, "model.language_model.rotary_emb", decoder);
  out.head("lm_head", "model.language_model.embed_tokens.weight", decoder.hidden);
}

}  // namespace

extern const Family kGlm4v;
const Family kGlm4v{"glm4v", "Glm4vTextDecoderLayer", describe, write, {.begin_token = false}};

}  // namespace headroom

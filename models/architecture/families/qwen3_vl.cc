#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"
#include "models/architecture/qwen3_vision.h"

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
constexpr std::int64_t kDepths = 3;

Config text_of(Config& config) {
  return config.section("text_config");
}

void describe(Config& config, Architecture& model) {
  Config text = text_of(config);
  Decoder& decoder = model.decoder = read_decoder(text, kDense);
  decoder.tied_embeddings = config.flag("tie_word_embeddings", decoder.tied_embeddings);
  Layer layer = read_layer(text, kDense, decoder.hidden);
  layer.attention.query_norm = layer.attention.key_norm = rms_norm(layer.attention.head_dim);
  decoder.groups = equal_layers(decoder.layers, layer);
  model.vision = read_qwen3_vision(config, "Qwen3VLVisionBlock", kDepths);
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
  model.vision = read_qwen3_vision(config, "Qwen3VLVisionBlock", kDepths);
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
  write_qwen3_vision(out, kDepths);
  write_text(out);
}

}  // namespace

extern const Family kQwen3Vl;
const Family kQwen3Vl{"qwen3_vl", "Qwen3VLTextDecoderLayer", describe, write, {.begin_token = false}};

extern const Family kQwen3VlMoe;
const Family kQwen3VlMoe{
    "qwen3_vl_moe", "Qwen3VLMoeTextDecoderLayer", describe_moe, write, {.begin_token = false}};

}  // namespace headroom

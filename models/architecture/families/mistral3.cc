#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 131072,
                             .hidden = 5120,
                             .intermediate = 32768,
                             .layers = 40,
                             .kv_heads = 8,
                             .head_dim = 128,
                             .max_positions = 131072};
constexpr Defaults kMinistral{.vocabulary = 131072,
                              .intermediate = 14336,
                              .layers = 34,
                              .kv_heads = 8,
                              .head_dim = 128,
                              .max_positions = 262144};

/// Mistral's layers; the config's window is never set.
void describe_decoder(Config& config, Architecture& model, const Defaults& defaults) {
  Decoder& decoder = model.decoder = read_decoder(config, defaults);
  Layer layer = read_layer(config, defaults, decoder.hidden);
  layer.attention.qkv_bias = layer.attention.output_bias = false;
  layer.attention.sliding_window = config.size_or_none("sliding_window", 0);
  decoder.groups = equal_layers(decoder.layers, layer);
}

void describe_text(Config& config, Architecture& model) {
  describe_decoder(config, model, kMinistral);
}

/// Behind Pixtral's tower, whose patches are joined in squares before two linears.
void describe(Config& config, Architecture& model) {
  Config text = config.section("text_config"), vision = config.section("vision_config");
  const bool ministral = text.text("model_type", "mistral") == "ministral3";
  if (ministral) model.layer_class = "Ministral3DecoderLayer";
  describe_decoder(text, model, ministral ? kMinistral : kDefaults);
  model.decoder.tied_embeddings = config.flag("tie_word_embeddings", model.decoder.tied_embeddings);
  model.vision = {.block_class = "PixtralAttentionLayer",
                  .blocks = vision.size("num_hidden_layers", 24),
                  .hidden = vision.size("hidden_size", 1024),
                  .heads = vision.size("num_attention_heads", 16),
                  .mlp_hidden = vision.size("intermediate_size", 4096),
                  .activation = vision.text("hidden_act", "gelu"),
                  .norm = NormKind::rms,
                  .gated = true,
                  .channels = vision.size("num_channels", 3),
                  .patch = vision.size("patch_size", 14),
                  .merge = config.size("spatial_merge_size", 2),
                  .output = model.decoder.hidden};
  if (config.flag("multimodal_projector_bias", false))
    config.reject("multimodal_projector_bias", "expected false, as in all public models");
}

void write_tower(TensorWriter& out) {
  const VisionTower& tower = out.model().vision;
  const std::int64_t width = tower.hidden, merged = width * tower.merge * tower.merge;
  const std::string at = "model.vision_tower.", to = "model.multi_modal_projector.";
  out.place(Place::vision);
  out.parameter(at + "patch_conv.weight", {width, tower.channels, tower.patch, tower.patch});
  out.norm(at + "ln_pre", rms_norm(width));
  out.vision_blocks(at + "transformer.layers", tower.blocks, [&] {
    out.norm("attention_norm", rms_norm(width));
    out.linear("feed_forward.gate_proj", tower.mlp_hidden, width, Split::column);
    out.linear("feed_forward.up_proj", tower.mlp_hidden, width, Split::column);
    out.linear("feed_forward.down_proj", width, tower.mlp_hidden, Split::row);
    for (const char* name : {"attention.k_proj", "attention.v_proj", "attention.q_proj"})
      out.linear(name, width, width, Split::column);
    out.linear("attention.o_proj", width, width, Split::row);
    out.norm("ffn_norm", rms_norm(width));
  });
  out.buffer(at + "patch_positional_embedding.inv_freq", {width / tower.heads / 2}, DType::fp32);
  out.norm(to + "norm", rms_norm(width));
  out.linear(to + "patch_merger.merging_layer", width, merged, Split::replicated);
  out.linear(to + "linear_1", tower.output, width, Split::replicated);
  out.linear(to + "linear_2", tower.output, tower.output, Split::replicated);
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  write_tower(out);
  out.place(Place::embedding);
  out.embedding("model.language_model.embed_tokens", decoder.vocabulary, decoder.hidden);
  out.layers("model.language_model.layers", [&](const Layer& layer) { write_llama_layer(out, layer); });
  out.norm("model.language_model.norm", decoder.final_norm);
  write_rotary(out, "model.language_model.rotary_emb", decoder);
  out.head("lm_head", "model.language_model.embed_tokens.weight", decoder.hidden);
}

}  // namespace

extern const Family kMistral3;
const Family kMistral3{"mistral3", "MistralDecoderLayer", describe, write};

extern const Family kMinistral3;
const Family kMinistral3{"ministral3", "Ministral3DecoderLayer", describe_text, write_llama};

}  // namespace headroom

#include "models/architecture/qwen_vl.h"

#include "models/architecture/blocks.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 152064,
                             .hidden = 8192,
                             .intermediate = 29568,
                             .layers = 80,
                             .heads = 64,
                             .kv_heads = 8,
                             .max_positions = 32768};

SlidingRule sliding(Config& text) {
  if (!text.flag("use_sliding_window", false)) return {};
  return {.window = text.count("sliding_window", 4096), .first = text.count("max_window_layers", 80)};
}

Norm norm_of(const VisionTower& tower) {
  return tower.norm == NormKind::rms ? rms_norm(tower.hidden) : layer_norm(tower.hidden);
}

}  // namespace

void describe_qwen_vl_text(Config& config, Architecture& model) {
  Config text = config.has("text_config") ? config.section("text_config") : config;
  Decoder& decoder = model.decoder = read_decoder(text, kDefaults);
  decoder.tied_embeddings = config.flag("tie_word_embeddings", decoder.tied_embeddings);
  Layer layer = read_layer(text, kDefaults, decoder.hidden);
  layer.attention.qkv_bias = true;
  layer.attention.output_bias = false;
  decoder.groups = read_sliding_layers(text, decoder.layers, layer, sliding(text));
}

void write_qwen_vl_text(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  out.place(Place::embedding);
  out.embedding("model.language_model.embed_tokens", decoder.vocabulary, decoder.hidden);
  out.layers("model.language_model.layers", [&](const Layer& layer) { write_llama_layer(out, layer); });
  out.norm("model.language_model.norm", decoder.final_norm);
  write_rotary(out, "model.language_model.rotary_emb", decoder);
  out.head("lm_head", "model.language_model.embed_tokens.weight", decoder.hidden);
}

void write_qwen_vision(TensorWriter& out, void (*mlp)(TensorWriter& out, const VisionTower& tower)) {
  const VisionTower& tower = out.model().vision;
  const std::int64_t width = tower.hidden;
  const std::int64_t merged = width * tower.merge * tower.merge;
  out.place(Place::vision);
  out.parameter("model.visual.patch_embed.proj.weight",
                {width, tower.channels, tower.temporal_patch, tower.patch, tower.patch});
  out.buffer("model.visual.rotary_pos_emb.inv_freq", {width / tower.heads / 4}, DType::fp32);
  out.vision_blocks("model.visual.blocks", tower.blocks, [&] {
    out.norm("norm1", norm_of(tower));
    out.norm("norm2", norm_of(tower));
    out.linear("attn.qkv", 3 * width, width, Split::column, true);
    out.linear("attn.proj", width, width, Split::row, true);
    mlp(out, tower);
  });
  out.norm("model.visual.merger.ln_q", norm_of(tower));
  out.linear("model.visual.merger.mlp.0", merged, merged, Split::column, true);
  out.linear("model.visual.merger.mlp.2", tower.output, merged, Split::row, true);
}

}  // namespace headroom

#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 151552,
                             .intermediate = 13696,
                             .layers = 40,
                             .kv_heads = 2,
                             .head_dim = 128,
                             .max_positions = 131072,
                             .attention_bias = true};

/// GLM: Llama's arrangement with half-rotated heads and fused gate and up.
Layer read_glm_layer(Config& config, const Decoder& decoder) {
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.output_bias = false;
  layer.attention.rotary_dim = read_rotary_dim(config, layer.attention.head_dim, 0.5);
  layer.mlp.fused_gate_up = true;
  return layer;
}

void describe_glm(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  decoder.groups = equal_layers(decoder.layers, read_glm_layer(config, decoder));
}

/// GLM-4 adds a norm behind each branch.
void describe_glm4(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_glm_layer(config, decoder);
  layer.residual = ResidualKind::sandwich;
  layer.attention_post_norm = layer.mlp_post_norm = rms_norm(decoder.hidden);
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  write_llama_frame(out, [&](const Layer& layer) {
    write_llama_layer(out, layer);
    out.norm("post_self_attn_layernorm", layer.attention_post_norm);
    out.norm("post_mlp_layernorm", layer.mlp_post_norm);
  });
}

}  // namespace

extern const Family kGlm;
const Family kGlm{"glm", "GlmDecoderLayer", describe_glm, write_llama, {.begin_token = false}};

extern const Family kGlm4;
const Family kGlm4{"glm4", "Glm4DecoderLayer", describe_glm4, write, {.begin_token = false}};

}  // namespace headroom

#include "models/architecture/blocks.h"
#include "models/architecture/deepseek.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 151552,
                             .hidden = 4096,
                             .intermediate = 10944,
                             .layers = 46,
                             .heads = 96,
                             .kv_heads = 8,
                             .head_dim = 128,
                             .max_positions = 131072};

constexpr DeepseekDefaults kExperts{.dense_layers = 1,
                                    .experts = 128,
                                    .experts_per_token = 8,
                                    .expert_hidden = 1408,
                                    .shared_experts = 1,
                                    .normalized = true,
                                    .expert_groups = 1,
                                    .open_groups = 1};

/// GLM-4.5: DeepSeek-V3's experts behind grouped-query attention with half-rotated heads.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.output_bias = false;
  layer.attention.rotary_dim = read_rotary_dim(config, layer.attention.head_dim, 0.5);
  if (config.flag("use_qk_norm", false))
    layer.attention.query_norm = layer.attention.key_norm = rms_norm(layer.attention.head_dim);
  place_deepseek_experts(config, decoder, layer, kDefaults, kExperts);
}

void write(TensorWriter& out) {
  write_llama_frame(out, [&](const Layer& layer) {
    write_attention(out, "self_attn", layer.attention);
    write_deepseek_mlp(out, layer.mlp, {.router_linear = false, .router_correction = true});
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
}

}  // namespace

extern const Family kGlm4Moe;
const Family kGlm4Moe{"glm4_moe", "Glm4MoeDecoderLayer", describe, write, {.begin_token = false}};

}  // namespace headroom

#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 151936,
                             .hidden = 2048,
                             .intermediate = 5632,
                             .layers = 24,
                             .heads = 16,
                             .kv_heads = 16,
                             .max_positions = 32768};

/// A shared expert beside the routed ones, scaled by a gate of its own.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.qkv_bias = config.flag("qkv_bias", true);
  layer.attention.output_bias = false;
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, qwen_sliding(config));
  Mlp experts = read_experts(config, {"num_experts", "num_local_experts"}, "moe_intermediate_size",
                             {.experts = 60, .experts_per_token = 4, .hidden = 1408}, kDefaults.activation);
  experts.shared_hidden = config.size("shared_expert_intermediate_size", 5632);
  experts.shared_gate = true;
  replace_sparse_layers(config, decoder, experts);
}

void write(TensorWriter& out) {
  const std::int64_t hidden = out.decoder().hidden;
  write_llama_frame(out, [&](const Layer& layer) {
    write_attention(out, "self_attn", layer.attention);
    if (layer.mlp.kind == MlpKind::experts) {
      out.parameter("mlp.gate.weight", {layer.mlp.experts, hidden});
      write_experts(out, "mlp.experts", layer.mlp);
      write_gated_mlp(out, "mlp.shared_expert", {.hidden = layer.mlp.shared_hidden});
      out.linear("mlp.shared_expert_gate", 1, hidden, Split::replicated);
    } else {
      write_gated_mlp(out, "mlp", layer.mlp);
    }
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
}

}  // namespace

extern const Family kQwen2Moe;
const Family kQwen2Moe{"qwen2_moe", "Qwen2MoeDecoderLayer", describe, write, {.begin_token = false}};

}  // namespace headroom

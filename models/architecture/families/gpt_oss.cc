#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 201088,
                             .hidden = 2880,
                             .intermediate = 2880,
                             .layers = 36,
                             .heads = 64,
                             .kv_heads = 8,
                             .head_dim = 64,
                             .max_positions = 131072,
                             .attention_bias = true};

/// A learned sink for each head; expert matrices stored [experts, in, out]; every other layer slides.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.sinks = true;
  layer.mlp =
      read_experts(config, {"num_local_experts", "num_experts"}, "intermediate_size",
                   {.experts = 128, .experts_per_token = 4, .hidden = kDefaults.intermediate}, "silu");
  layer.mlp.router_bias = layer.mlp.expert_bias = true;
  const SlidingRule rule{.window = config.size_or_none("sliding_window", 128), .full_every = 2};
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, rule);
}

void write(TensorWriter& out) {
  const std::int64_t hidden = out.decoder().hidden;
  write_llama_frame(out, [&](const Layer& layer) {
    const Mlp& mlp = layer.mlp;
    out.parameter("self_attn.sinks", {layer.attention.heads}, TensorRole::other, Split::column);
    write_attention(out, "self_attn", layer.attention);
    out.parameter("mlp.router.weight", {mlp.experts, hidden});
    out.parameter("mlp.router.bias", {mlp.experts});
    out.experts("mlp.experts.gate_up_proj", {mlp.experts, hidden, 2 * mlp.hidden}, Split::column, true);
    out.experts("mlp.experts.gate_up_proj_bias", {mlp.experts, 2 * mlp.hidden}, Split::column);
    out.experts("mlp.experts.down_proj", {mlp.experts, mlp.hidden, hidden}, Split::row, true);
    out.experts("mlp.experts.down_proj_bias", {mlp.experts, hidden}, Split::replicated);
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
}

}  // namespace

extern const Family kGptOss;
const Family kGptOss{"gpt_oss", "GptOssDecoderLayer", describe, write, {.begin_token = false}};

}  // namespace headroom

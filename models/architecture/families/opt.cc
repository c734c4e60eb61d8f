#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 50272, .hidden = 768, .layers = 12, .heads = 12, .tied = true};

/// Positions are offset by two rows; OPT-350M embeds at half the width and norms after each branch.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  const bool biases = config.flag("enable_bias", true);
  const bool before = config.flag("do_layer_norm_before", true);
  const bool affine = config.flag("layer_norm_elementwise_affine", true);
  decoder.position = PositionKind::learned;
  decoder.position_rows = decoder.max_positions + 2;
  decoder.embedding_dim = config.size("word_embed_proj_dim", decoder.hidden);
  decoder.dropout = config.number("dropout", 0.1);
  Norm norm = layer_norm(decoder.hidden);
  norm.weight = norm.bias = affine;
  decoder.final_norm = before && !config.flag("_remove_final_layer_norm", false) ? norm : Norm{};

  Layer layer;
  layer.residual = before ? ResidualKind::sequential : ResidualKind::post_norm;
  layer.attention_norm = layer.mlp_norm = norm;
  Attention& attention = layer.attention;
  attention.heads = attention.kv_heads = config.essential("num_attention_heads", kDefaults.heads);
  attention.head_dim = attention.value_head_dim = default_head_dim(config, decoder.hidden, attention.heads);
  attention.qkv_bias = attention.output_bias = biases;
  layer.mlp = {.kind = MlpKind::plain,
               .activation = config.text("activation_function", "relu"),
               .hidden = config.size("ffn_dim", 3072),
               .bias = biases};
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  const std::int64_t hidden = decoder.hidden;
  out.embedding("model.decoder.embed_tokens", decoder.vocabulary, decoder.embedding_dim);
  out.embedding("model.decoder.embed_positions", decoder.position_rows, hidden, Split::replicated);
  if (decoder.embedding_dim != hidden) {
    out.place(Place::final_norm);
    out.linear("model.decoder.project_out", decoder.embedding_dim, hidden, Split::replicated);
    out.place(Place::embedding);
    out.linear("model.decoder.project_in", hidden, decoder.embedding_dim, Split::replicated);
  }
  out.place(Place::final_norm);
  out.norm("model.decoder.final_layer_norm", decoder.final_norm);
  out.layers("model.decoder.layers", [&](const Layer& layer) {
    const Attention& attention = layer.attention;
    out.linear("self_attn.k_proj", hidden, hidden, Split::qkv, attention.qkv_bias);
    out.linear("self_attn.v_proj", hidden, hidden, Split::qkv, attention.qkv_bias);
    out.linear("self_attn.q_proj", hidden, hidden, Split::column, attention.qkv_bias);
    out.linear("self_attn.out_proj", hidden, hidden, Split::row, attention.output_bias);
    out.norm("self_attn_layer_norm", layer.attention_norm);
    write_plain_mlp(out, "fc1", "fc2", layer.mlp);
    out.norm("final_layer_norm", layer.mlp_norm);
  });
  out.head("lm_head", "model.decoder.embed_tokens.weight", decoder.embedding_dim);
}

}  // namespace

extern const Family kOpt;
const Family kOpt{"opt", "OPTDecoderLayer", describe, write, {.functional_dropout = true}};

}  // namespace headroom

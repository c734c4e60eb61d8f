#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

/// Three layouts: one key/value head (7B), grouped heads with two norms (40B, 180B), sequential with ALiBi
/// (RW).
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder;
  decoder.vocabulary = config.size("vocab_size", 65024);
  decoder.hidden = decoder.embedding_dim = config.essential({"hidden_size", "n_embed"}, 4544);
  decoder.layers = config.essential({"num_hidden_layers", "n_layer"}, 32);
  decoder.max_positions = config.size("max_position_embeddings", 2048);
  decoder.tied_embeddings = config.flag("tie_word_embeddings", true);
  decoder.dropout = config.number("hidden_dropout", 0);
  decoder.attention_dropout = config.number("attention_dropout", 0);
  decoder.final_norm = layer_norm(decoder.hidden);
  if (config.flag("alibi", false)) decoder.position = PositionKind::alibi;

  const bool grouped = config.flag("new_decoder_architecture", false);
  const bool parallel = config.flag("parallel_attn", true);
  const std::int64_t norms = config.size("num_ln_in_parallel_attn", grouped ? 2 : 1);
  Layer layer;
  layer.residual = parallel ? ResidualKind::parallel : ResidualKind::sequential;
  layer.attention_norm = layer_norm(decoder.hidden);
  if (!parallel || norms == 2) layer.mlp_norm = layer.attention_norm;
  Attention& attention = layer.attention;
  attention.kind = AttentionKind::fused_qkv;
  attention.heads = config.essential({"num_attention_heads", "n_head"}, 71);
  const std::int64_t kv_heads = config.size({"num_kv_heads", "n_head_kv"}, attention.heads);
  attention.kv_heads = grouped || !config.flag("multi_query", true) ? kv_heads : 1;
  attention.head_dim = attention.value_head_dim = default_head_dim(config, decoder.hidden, attention.heads);
  attention.rotary_dim = decoder.position == PositionKind::rotary ? attention.head_dim : 0;
  attention.qkv_bias = attention.output_bias = config.flag("bias", false);
  layer.mlp = {.kind = MlpKind::plain,
               .activation = config.text("activation", "gelu"),
               .hidden = config.size("ffn_hidden_size", 4 * decoder.hidden),
               .bias = attention.qkv_bias};
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  const std::int64_t hidden = decoder.hidden;
  out.embedding("transformer.word_embeddings", decoder.vocabulary, hidden);
  out.layers("transformer.h", [&](const Layer& layer) {
    const Attention& attention = layer.attention;
    const bool sequential = layer.residual == ResidualKind::sequential;
    const bool two = !sequential && layer.mlp_norm.present();
    out.linear("self_attention.query_key_value",
               (attention.heads + 2 * attention.kv_heads) * attention.head_dim, hidden, Split::qkv,
               attention.qkv_bias);
    out.linear("self_attention.dense", hidden, hidden, Split::row, attention.output_bias);
    write_plain_mlp(out, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", layer.mlp);
    if (sequential) out.norm("post_attention_layernorm", layer.mlp_norm);
    out.norm(two ? "ln_attn" : "input_layernorm", layer.attention_norm);
    if (two) out.norm("ln_mlp", layer.mlp_norm);
  });
  out.norm("transformer.ln_f", decoder.final_norm);
  write_rotary(out, "transformer.rotary_emb", decoder);
  out.head("lm_head", "transformer.word_embeddings.weight", hidden, "classifier");
}

}  // namespace

extern const Family kFalcon;
const Family kFalcon{"falcon", "FalconDecoderLayer", describe, write};

}  // namespace headroom

#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

/// ALiBi positions and a norm on the embeddings.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder;
  decoder.vocabulary = config.size("vocab_size", 250880);
  decoder.hidden = decoder.embedding_dim = config.essential({"hidden_size", "n_embed", "n_embd"}, 64);
  decoder.layers = config.essential({"n_layer", "num_hidden_layers"}, 2);
  decoder.max_positions = config.size("seq_length", 2048);
  decoder.position = PositionKind::alibi;
  decoder.tied_embeddings = config.flag("tie_word_embeddings", true);
  decoder.dropout = config.number("hidden_dropout", 0);
  decoder.attention_dropout = config.number("attention_dropout", 0);
  decoder.embedding_norm = decoder.final_norm = layer_norm(decoder.hidden);

  Layer layer;
  layer.attention_norm = layer.mlp_norm = layer_norm(decoder.hidden);
  Attention& attention = layer.attention;
  attention.kind = AttentionKind::fused_qkv;
  attention.heads = attention.kv_heads = config.essential({"n_head", "num_attention_heads"}, 8);
  attention.head_dim = attention.value_head_dim = default_head_dim(config, decoder.hidden, attention.heads);
  attention.qkv_bias = attention.output_bias = true;
  layer.mlp = {.kind = MlpKind::plain, .activation = "gelu", .hidden = 4 * decoder.hidden, .bias = true};
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  const std::int64_t hidden = decoder.hidden;
  out.embedding("transformer.word_embeddings", decoder.vocabulary, hidden);
  out.norm("transformer.word_embeddings_layernorm", decoder.embedding_norm);
  out.layers("transformer.h", [&](const Layer& layer) {
    out.norm("input_layernorm", layer.attention_norm);
    out.linear("self_attention.query_key_value", 3 * hidden, hidden, Split::qkv, true);
    out.linear("self_attention.dense", hidden, hidden, Split::row, true);
    out.norm("post_attention_layernorm", layer.mlp_norm);
    write_plain_mlp(out, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", layer.mlp);
  });
  out.norm("transformer.ln_f", decoder.final_norm);
  out.head("lm_head", "transformer.word_embeddings.weight", hidden, "classifier");
}

}  // namespace

extern const Family kBloom;
const Family kBloom{"bloom", "BloomBlock", describe, write};

}  // namespace headroom

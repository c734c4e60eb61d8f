#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

/// Both branches read one norm; attention has no biases, the MLP and the head have.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder;
  decoder.vocabulary = config.size("vocab_size", 50400);
  decoder.hidden = decoder.embedding_dim = config.essential({"n_embd", "hidden_size"}, 4096);
  decoder.layers = config.essential({"n_layer", "num_hidden_layers"}, 28);
  decoder.max_positions = config.size({"n_positions", "max_position_embeddings"}, 2048);
  decoder.tied_embeddings = config.flag("tie_word_embeddings", false);
  decoder.head_bias = true;
  decoder.dropout = config.number("resid_pdrop", 0);
  decoder.attention_dropout = config.number("attn_pdrop", 0);
  decoder.final_norm = layer_norm(decoder.hidden);

  Layer layer;
  layer.residual = ResidualKind::parallel;
  layer.attention_norm = layer_norm(decoder.hidden);
  Attention& attention = layer.attention;
  attention.heads = attention.kv_heads = config.essential({"n_head", "num_attention_heads"}, 16);
  attention.head_dim = attention.value_head_dim = default_head_dim(config, decoder.hidden, attention.heads);
  attention.rotary_dim = config.size_or_none("rotary_dim", 64);
  if (attention.rotary_dim == 0) attention.rotary_dim = attention.head_dim;
  layer.mlp = {.kind = MlpKind::plain,
               .activation = config.text("activation_function", "gelu_new"),
               .hidden = config.size("n_inner", 4 * decoder.hidden),
               .bias = true};
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  const std::int64_t hidden = decoder.hidden;
  out.embedding("transformer.wte", decoder.vocabulary, hidden);
  out.layers("transformer.h", [&](const Layer& layer) {
    out.norm("ln_1", layer.attention_norm);
    out.linear("attn.k_proj", hidden, hidden, Split::qkv);
    out.linear("attn.v_proj", hidden, hidden, Split::qkv);
    out.linear("attn.q_proj", hidden, hidden, Split::column);
    out.linear("attn.out_proj", hidden, hidden, Split::row);
    out.buffer("attn.embed_positions", {decoder.max_positions, layer.attention.rotary_dim}, DType::fp32);
    write_plain_mlp(out, "mlp.fc_in", "mlp.fc_out", layer.mlp);
  });
  out.norm("transformer.ln_f", decoder.final_norm);
  out.head("lm_head", "transformer.wte.weight", hidden);
}

}  // namespace

extern const Family kGptJ;
const Family kGptJ{"gptj", "GPTJBlock", describe, write};

}  // namespace headroom

#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder;
  decoder.vocabulary = config.size("vocab_size", 50257);
  decoder.hidden = decoder.embedding_dim = config.essential({"n_embd", "hidden_size"}, 768);
  decoder.layers = config.essential({"n_layer", "num_hidden_layers"}, 12);
  decoder.max_positions = decoder.position_rows =
      config.size({"n_positions", "max_position_embeddings"}, 1024);
  decoder.position = PositionKind::learned;
  decoder.tied_embeddings = config.flag("tie_word_embeddings", true);
  decoder.dropout = config.number("resid_pdrop", 0.1);
  decoder.attention_dropout = config.number("attn_pdrop", 0.1);
  decoder.final_norm = layer_norm(decoder.hidden);

  Layer layer;
  layer.attention_norm = layer.mlp_norm = layer_norm(decoder.hidden);
  Attention& attention = layer.attention;
  attention.kind = AttentionKind::fused_qkv;
  attention.heads = attention.kv_heads = config.essential({"n_head", "num_attention_heads"}, 12);
  attention.head_dim = attention.value_head_dim = default_head_dim(config, decoder.hidden, attention.heads);
  attention.qkv_bias = attention.output_bias = true;
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
  out.embedding("transformer.wpe", decoder.position_rows, hidden, Split::replicated);
  out.layers("transformer.h", [&](const Layer& layer) {
    out.norm("ln_1", layer.attention_norm);
    out.conv1d("attn.c_attn", hidden, 3 * hidden, Split::qkv);
    out.conv1d("attn.c_proj", hidden, hidden, Split::row);
    out.norm("ln_2", layer.mlp_norm);
    out.conv1d("mlp.c_fc", hidden, layer.mlp.hidden, Split::column);
    out.conv1d("mlp.c_proj", layer.mlp.hidden, hidden, Split::row);
  });
  out.norm("transformer.ln_f", decoder.final_norm);
  out.head("lm_head", "transformer.wte.weight", hidden, "classifier");
}

}  // namespace

extern const Family kGpt2;
const Family kGpt2{"gpt2", "GPT2Block", describe, write, {.own_dropout_names = true}};

}  // namespace headroom

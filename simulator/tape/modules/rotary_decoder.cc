#include "simulator/tape/modules/rotary_decoder.h"

#include <algorithm>

#include "simulator/tape/modules/attention_core.h"
#include "simulator/tape/modules/position_ids.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {

RotaryDecoder::RotaryDecoder(Tape& tape, const Architecture& architecture, const std::string& path,
                             const ModelOptions& options)
    : Model(tape, architecture, path, options) {
  const std::string body = "model";
  body_module_ = intern(body);
  embedding_module_ = intern(body + ".embed_tokens");
  register_parameter(*this, body + ".embed_tokens.weight", embedding_, {decoder_.vocabulary, decoder_.hidden},
                     -1);
  layers_ = std::vector<DecoderLayer>(static_cast<std::size_t>(decoder_.layers));
  for (int i = 0; i < decoder_.layers; ++i) build_layer(layers_[static_cast<std::size_t>(i)], i);
  final_norm_.build(*this, body + ".norm", decoder_.final_norm, -1);
  rotary_.build(*this, body + ".rotary_emb", decoder_.layer(0).attention.rotary_dim);
  build_head(embedding_);
}

bool RotaryDecoder::covers(const Decoder& decoder) {
  if (decoder.position != PositionKind::rotary || decoder.embedding_scale != 1 || decoder.logits_softcap != 0)
    return false;
  return std::all_of(decoder.groups.begin(), decoder.groups.end(), [](const LayerGroup& group) {
    const Layer& layer = group.layer;
    return layer.residual == ResidualKind::sequential && layer.attention.kind == AttentionKind::separate &&
           layer.attention.rotary_dim == layer.attention.head_dim && layer.attention.softcap == 0 &&
           !layer.attention.sinks && layer.mlp.kind == MlpKind::gated && !layer.mlp.fused_gate_up;
  });
}

void RotaryDecoder::build_layer(DecoderLayer& own, int index) {
  const Layer& spec = decoder_.layer(index);
  const Attention& attention = spec.attention;
  const std::string name = "model.layers." + std::to_string(index);
  const std::int64_t hidden = decoder_.hidden;
  own.module = intern(name);
  own.attention.module = intern(name + ".self_attn");
  own.attention.head_dim = attention.head_dim;
  own.attention.query.build(*this, name + ".self_attn.q_proj", attention.heads * attention.head_dim, hidden,
                            attention.qkv_bias, index);
  own.attention.key.build(*this, name + ".self_attn.k_proj", attention.kv_heads * attention.head_dim, hidden,
                          attention.qkv_bias, index);
  own.attention.value.build(*this, name + ".self_attn.v_proj", attention.kv_heads * attention.head_dim,
                            hidden, attention.qkv_bias, index);
  own.attention.output.build(*this, name + ".self_attn.o_proj", hidden, attention.heads * attention.head_dim,
                             attention.output_bias, index);
  if (attention.query_norm.present())
    own.attention.query_norm.build(*this, name + ".self_attn.q_norm", attention.query_norm, index);
  if (attention.key_norm.present())
    own.attention.key_norm.build(*this, name + ".self_attn.k_norm", attention.key_norm, index);
  own.mlp.build(*this, name + ".mlp", hidden, spec.mlp, index);
  own.attention_norm.build(*this, name + ".input_layernorm", spec.attention_norm, index);
  own.mlp_norm.build(*this, name + ".post_attention_layernorm", spec.mlp_norm, index);
}

Tensor RotaryDecoder::hidden_states(const ModelInput& input) {
  const ModuleScope body(tape_, body_module_);
  const std::int64_t batch = input.ids.size(0), tokens = input.ids.size(1);
  Tensor embeddings = embed(embedding_module_, embedding_, input.ids);
  if (embeddings_require_grad && tape_.grad_enabled() && !embeddings.requires_grad())
    embeddings->requires_grad = true;
  Tensor positions = input.position_ids.defined() ? input.position_ids : make_position_ids(tape_, tokens);
  probe_mask(positions, input.attention_mask, batch);
  auto [cos, sin] = rotary_(positions, embeddings.dtype());
  Tensor hidden = embeddings;
  for (int i = 0; i < decoder_.layers; ++i) {
    const DecoderLayer& layer = layers_[static_cast<std::size_t>(i)];
    KvCache* cache = input.cache;
    hidden = run_layer(i, hidden, {sin, cos, positions},
                       [this, &layer, i, cache](const Tensor& in, std::span<const Tensor> kept) {
                         return run(layer, i, in, kept[1], kept[0], cache);
                       });
  }
  hidden = final_norm_(hidden);
  // Qwen2's forward also holds the position ids in its mask arguments.
  if (architecture_.family == "llama")
    drop(positions, embeddings, sin, cos);
  else
    drop(embeddings, positions, sin, cos);
  return hidden;
}

Tensor RotaryDecoder::run(const DecoderLayer& layer, int index, const Tensor& input, const Tensor& cos,
                          const Tensor& sin, KvCache* cache) {
  const ModuleScope module(tape_, layer.module);
  Tensor residual = input;
  Tensor hidden = layer.attention_norm(input);
  hidden = attend(layer.attention, index, hidden, cos, sin, cache);
  hidden = add(residual, hidden);
  residual = hidden;
  hidden = layer.mlp_norm(hidden);
  hidden = layer.mlp(hidden);
  hidden = add(residual, hidden);
  return hidden;
}

Tensor RotaryDecoder::attend(const AttentionLayer& attention, int index, const Tensor& hidden,
                             const Tensor& cos, const Tensor& sin, KvCache* cache) {
  const ModuleScope module(tape_, attention.module);
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
  const auto heads = [&](Tensor projected, const NormLayer& norm) {
    Tensor split = view(std::move(projected), {batch, tokens, -1, attention.head_dim});
    if (norm.norm.present()) split = norm(std::move(split));
    return transpose(std::move(split), 1, 2);
  };
  Tensor query = heads(attention.query(hidden), attention.query_norm);
  Tensor key = heads(attention.key(hidden), attention.key_norm);
  Tensor value = heads(attention.value(hidden), {});
  {
    const Tensor wide_cos = unsqueeze(cos, 1), wide_sin = unsqueeze(sin, 1);
    Tensor turned_query = apply_rotary(query, wide_cos, wide_sin);
    Tensor turned_key = apply_rotary(key, wide_cos, wide_sin);
    query = std::move(turned_query);
    key = std::move(turned_key);
  }
  if (cache != nullptr) {
    cache->update(tape_, static_cast<std::size_t>(index), key, value);
    key = cache->layers[static_cast<std::size_t>(index)].keys;
    value = cache->layers[static_cast<std::size_t>(index)].values;
  }
  Tensor out = attention_core(options_, query, key, value);
  out = transpose(std::move(out), 1, 2);
  out = reshape(std::move(out), {batch, tokens, -1});
  out = attention.output(out);
  drop(query, key, value);
  return out;
}

}  // namespace headroom::tape

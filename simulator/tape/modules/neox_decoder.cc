#include "simulator/tape/modules/neox_decoder.h"

#include "simulator/tape/modules/eager_attention.h"
#include "simulator/tape/modules/position_ids.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/dropout.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {

NeoxDecoder::NeoxDecoder(Tape& tape, const Architecture& architecture, const std::string& path,
                         const ModelOptions& options)
    : Model(tape, architecture, path, options) {
  const std::string body = "gpt_neox";
  body_module_ = intern(body);
  embedding_module_ = intern(body + ".embed_in");
  register_parameter(*this, body + ".embed_in.weight", embedding_, {decoder_.vocabulary, decoder_.hidden},
                     -1);
  layers_ = std::vector<DecoderLayer>(static_cast<std::size_t>(decoder_.layers));
  for (int i = 0; i < decoder_.layers; ++i) build_layer(layers_[static_cast<std::size_t>(i)], i);
  final_norm_.build(*this, body + ".final_layer_norm", decoder_.final_norm, -1);
  rotary_.build(*this, body + ".rotary_emb", decoder_.layer(0).attention.rotary_dim);
  rotary_.initialise(*this);
  build_head(embedding_);
}

void NeoxDecoder::build_layer(DecoderLayer& own, int index) {
  const Layer& spec = decoder_.layer(index);
  const std::string name = "gpt_neox.layers." + std::to_string(index);
  const std::int64_t hidden = decoder_.hidden;
  own.module = intern(name);
  own.attention_module = intern(name + ".attention");
  own.mlp_module = intern(name + ".mlp");
  own.attention_norm.build(*this, name + ".input_layernorm", spec.attention_norm, index);
  own.mlp_norm.build(*this, name + ".post_attention_layernorm", spec.mlp_norm, index);
  own.qkv.build(*this, name + ".attention.query_key_value", 3 * hidden, hidden, spec.attention.qkv_bias,
                index);
  own.output.build(*this, name + ".attention.dense", hidden, hidden, spec.attention.output_bias, index);
  own.up.build(*this, name + ".mlp.dense_h_to_4h", spec.mlp.hidden, hidden, spec.mlp.bias, index);
  own.down.build(*this, name + ".mlp.dense_4h_to_h", hidden, spec.mlp.hidden, spec.mlp.bias, index);
}

Tensor NeoxDecoder::hidden_states(const ModelInput& input) {
  const ModuleScope body(tape_, body_module_);
  Tensor embeddings = embed(embedding_module_, embedding_, input.ids);
  Tensor positions =
      input.position_ids.defined() ? input.position_ids : make_position_ids(tape_, input.ids.size(1));
  Tensor mask = attention_mask(options_.attention, input, positions, embeddings.dtype());
  Tensor hidden = maybe_dropout(embeddings);
  auto [cos, sin] = rotary_(positions, embeddings.dtype());
  for (int i = 0; i < decoder_.layers; ++i) {
    const DecoderLayer& layer = layers_[static_cast<std::size_t>(i)];
    KvCache* cache = input.cache;
    hidden = run_layer(i, hidden, {sin, cos, positions, mask},
                       [this, &layer, i, cache](const Tensor& in, std::span<const Tensor> kept) {
                         return run(layer, i, in, {kept[1], kept[0], kept[3], cache});
                       });
  }
  hidden = final_norm_(hidden);
  drop(positions, embeddings, mask, sin, cos);
  return hidden;
}

Tensor NeoxDecoder::run(const DecoderLayer& layer, int index, const Tensor& input, const Shared& shared) {
  const ModuleScope module(tape_, layer.module);
  Tensor weights, hidden, wide;
  Tensor attention = attend(layer, index, layer.attention_norm(input), shared, weights);
  attention = maybe_dropout(std::move(attention));
  if (decoder_.layer(index).residual == ResidualKind::parallel) {
    wide = maybe_dropout(mlp(layer, index, layer.mlp_norm(input)));
    hidden = add(add(wide, attention), input);
  } else {
    attention = add(attention, input);
    wide = maybe_dropout(mlp(layer, index, layer.mlp_norm(attention)));
    hidden = add(wide, attention);
  }
  drop(attention, weights, wide);
  return hidden;
}

Tensor NeoxDecoder::attend(const DecoderLayer& layer, int index, Arg hidden, const Shared& shared,
                           Tensor& weights) {
  const ModuleScope module(tape_, layer.attention_module);
  const Attention& spec = decoder_.layer(index).attention;
  const std::int64_t batch = hidden->size(0), tokens = hidden->size(1);
  Tensor qkv = transpose(view(layer.qkv(*hidden), {batch, tokens, -1, 3 * spec.head_dim}), 1, 2);
  Tensor query, key, value;
  {
    std::vector<Tensor> parts = split(qkv, -1, spec.head_dim);
    query = std::move(parts[0]);
    key = std::move(parts[1]);
    value = std::move(parts[2]);
  }
  apply_partial_rotary(query, key, shared.cos, shared.sin);
  if (shared.cache != nullptr) {
    shared.cache->update(tape_, static_cast<std::size_t>(index), key, value);
    key = shared.cache->layers[static_cast<std::size_t>(index)].keys;
    value = shared.cache->layers[static_cast<std::size_t>(index)].values;
  }
  const EagerForm eager{.dropout = options_.training && decoder_.attention_dropout > 0};
  Tensor out = attend_heads(options_.attention, query, key, value, shared.mask, weights, eager);
  out = reshape(std::move(out), {batch, tokens, -1});
  out = layer.output(out);
  drop(qkv, query, key, value);
  done(hidden);
  return out;
}

Tensor NeoxDecoder::maybe_dropout(Tensor hidden) const {
  if (!options_.training || !options_.dropout || decoder_.dropout <= 0) return hidden;
  return dropout(std::move(hidden));
}

Tensor NeoxDecoder::mlp(const DecoderLayer& layer, int index, Arg input) {
  const ModuleScope module(tape_, layer.mlp_module);
  Tensor hidden = layer.up(*input);
  hidden = activation(decoder_.layer(index).mlp.activation, hidden);
  hidden = layer.down(hidden);
  done(input);
  return hidden;
}

}  // namespace headroom::tape

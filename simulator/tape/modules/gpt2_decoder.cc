#include "simulator/tape/modules/gpt2_decoder.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/modules/eager_attention.h"
#include "simulator/tape/modules/module_hooks.h"
#include "simulator/tape/modules/position_ids.h"
#include "simulator/tape/operations/attention.h"
#include "simulator/tape/operations/dropout.h"
#include "simulator/tape/operations/embedding.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

std::string name_of(int layer) {
  return "transformer.h." + std::to_string(layer);
}

}  // namespace

void Conv1dLayer::build(Model& model, const std::string& name, std::int64_t in, std::int64_t out, int layer) {
  owner = &model;
  module = model.intern(name);
  transposed = true;
  model.linears().push_back({name, this, layer});
  register_parameter(model, name + ".weight", weight, {in, out}, layer);
  register_parameter(model, name + ".bias", bias, {out}, layer);
}

Tensor Conv1dLayer::operator()(const Tensor& input) const {
  const ModuleScope scope(input.tape(), module);
  return between_hooks(module_hooks(*owner), module, input, [&](const Tensor& x) { return multiply(x); });
}

Tensor Conv1dLayer::multiply(const Tensor& input) const {
  Tape& tape = input.tape();
  Tensor flat = view(input, {-1, input.size(-1)});
  Tensor rows;
  {
    // Autocast casts addmm's arguments from right to left.
    Tensor matrix = autocast_cast(weight, tape);
    Tensor x = autocast_cast(flat, tape);
    Tensor offset = autocast_cast(bias, tape);
    flat.reset();
    rows = addmm(offset, x, matrix);
    drop(offset, x, matrix);
  }
  Tensor result = view(std::move(rows), {input.size(0), input.size(1), weight.size(1)});
  return lora && owner->options().adapters ? adapted(input, std::move(result)) : result;
}

Gpt2Decoder::Gpt2Decoder(Tape& tape, const Architecture& architecture, const std::string& path,
                         const ModelOptions& options)
    : Model(tape, architecture, path, options) {
  const std::string body = "transformer";
  body_module_ = intern(body);
  embedding_module_ = intern(body + ".wte");
  position_module_ = intern(body + ".wpe");
  register_parameter(*this, body + ".wte.weight", embedding_, {decoder_.vocabulary, decoder_.hidden}, -1);
  register_parameter(*this, body + ".wpe.weight", position_table_, {decoder_.position_rows, decoder_.hidden},
                     -1);
  layers_ = std::vector<DecoderLayer>(static_cast<std::size_t>(decoder_.layers));
  for (int i = 0; i < decoder_.layers; ++i) build_layer(layers_[static_cast<std::size_t>(i)], i);
  final_norm_.build(*this, body + ".ln_f", decoder_.final_norm, -1);
  build_head(embedding_);
}

void Gpt2Decoder::build_layer(DecoderLayer& own, int index) {
  const Layer& spec = decoder_.layer(index);
  const std::string name = name_of(index);
  const std::int64_t hidden = decoder_.hidden;
  own.module = intern(name);
  own.attention_module = intern(name + ".attn");
  own.mlp_module = intern(name + ".mlp");
  own.attention_norm.build(*this, name + ".ln_1", spec.attention_norm, index);
  own.qkv.build(*this, name + ".attn.c_attn", hidden, 3 * hidden, index);
  own.output.build(*this, name + ".attn.c_proj", hidden, hidden, index);
  own.mlp_norm.build(*this, name + ".ln_2", spec.mlp_norm, index);
  own.up.build(*this, name + ".mlp.c_fc", hidden, spec.mlp.hidden, index);
  own.down.build(*this, name + ".mlp.c_proj", spec.mlp.hidden, hidden, index);
}

Tensor Gpt2Decoder::hidden_states(const ModelInput& input) {
  const ModuleScope body(tape_, body_module_);
  const ContainerVisit transformer(*this, "transformer");
  Tensor embeddings = embed(embedding_module_, embedding_, input.ids);
  Tensor positions =
      input.position_ids.defined() ? input.position_ids : make_position_ids(tape_, input.ids.size(1));
  Tensor places = embed_positions(position_module_, position_table_, [&] { return positions; });
  Tensor hidden = add(embeddings, places);
  Tensor mask = attention_mask(options_.attention, input, positions, embeddings.dtype());
  hidden = maybe_dropout(std::move(hidden), "transformer.drop");
  for (int i = 0; i < decoder_.layers; ++i) {
    const DecoderLayer& layer = layers_[static_cast<std::size_t>(i)];
    KvCache* cache = input.cache;
    hidden = run_layer(
        i, hidden, {positions, mask},
        [this, &layer, i, cache](const Tensor& in, std::span<const Tensor> kept) {
          return run(layer, i, in, kept[1], cache);
        },
        1);  // the mask
  }
  hidden = final_norm_(hidden);
  drop(positions, embeddings, places, mask);
  return hidden;
}

Tensor Gpt2Decoder::run(const DecoderLayer& layer, int index, const Tensor& input, const Tensor& mask,
                        KvCache* cache) {
  const ModuleScope module(tape_, layer.module);
  Tensor residual = input;
  Tensor hidden = layer.attention_norm(input);
  Tensor weights;
  Tensor attention = attend(layer, index, hidden, mask, weights, cache);
  hidden = add(attention, residual);
  residual = hidden;
  hidden = layer.mlp_norm(hidden);
  Tensor wide = mlp(layer, index, hidden);
  hidden = add(residual, wide);
  drop(residual, attention, weights, wide);
  return hidden;
}

Tensor Gpt2Decoder::attend(const DecoderLayer& layer, int index, const Tensor& hidden, const Tensor& mask,
                           Tensor& weights, KvCache* cache) {
  const ModuleScope module(tape_, layer.attention_module);
  const ContainerVisit visit(*this, name_of(index) + ".attn");
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
  const std::int64_t head_dim = decoder_.layer(index).attention.head_dim;
  const auto heads = [&](Tensor part) {
    return transpose(view(std::move(part), {batch, tokens, -1, head_dim}), 1, 2);
  };
  Tensor query, key, value;
  {
    std::vector<Tensor> parts = split(layer.qkv(hidden), 2, decoder_.hidden);
    query = std::move(parts[0]);
    key = std::move(parts[1]);
    value = std::move(parts[2]);
  }
  key = heads(std::move(key));
  value = heads(std::move(value));
  query = heads(std::move(query));
  if (cache != nullptr) {
    cache->update(tape_, static_cast<std::size_t>(index), key, value);
    key = cache->layers[static_cast<std::size_t>(index)].keys;
    value = cache->layers[static_cast<std::size_t>(index)].values;
  }
  const EagerForm eager{.own_dtype = true,
                        .dropout = options_.training && options_.dropout && decoder_.attention_dropout > 0};
  Tensor out = attend_heads(options_.attention, query, key, value, mask, weights, eager);
  out = reshape(std::move(out), {batch, tokens, -1});
  out = layer.output(out);
  out = maybe_dropout(std::move(out), name_of(index) + ".attn.resid_dropout");
  drop(query, key, value);
  return out;
}

Tensor Gpt2Decoder::maybe_dropout(Tensor hidden, const std::string& name) {
  const ContainerVisit visit(*this, name);
  if (!options_.training || !options_.dropout || decoder_.dropout <= 0) return hidden;
  return dropout(std::move(hidden));
}

Tensor Gpt2Decoder::mlp(const DecoderLayer& layer, int index, const Tensor& input) {
  const ModuleScope module(tape_, layer.mlp_module);
  const std::string name = name_of(index) + ".mlp";
  const ContainerVisit visit(*this, name);
  Tensor hidden = layer.up(input);
  {
    const ContainerVisit act(*this, name + ".act");
    hidden = activation(decoder_.layer(index).mlp.activation, hidden);
  }
  hidden = layer.down(hidden);
  return maybe_dropout(std::move(hidden), name + ".dropout");
}

}  // namespace headroom::tape

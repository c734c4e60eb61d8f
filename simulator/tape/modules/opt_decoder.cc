#include "simulator/tape/modules/opt_decoder.h"

#include "simulator/tape/modules/eager_attention.h"
#include "simulator/tape/modules/module_hooks.h"
#include "simulator/tape/modules/position_ids.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/dropout.h"
#include "simulator/tape/operations/embedding.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/scan.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kCumsum = operation_name("aten::cumsum");
const std::uint16_t kAdd = operation_name("aten::add"), kSub = operation_name("aten::sub"),
                    kMul = operation_name("aten::mul");

/// The running sum of a mask in fp32.
Tensor scan(const Tensor& mask) {
  Tensor out = plain(kCumsum, mask.dtype(), mask);
  const Tensor scratch = single_row_scratch(mask);
  return out;
}

/// (cumsum(mask) * mask - 1).long(), in the mask's dtype until the end.
Tensor positions_of(const Tensor& mask) {
  Tensor positions = mask.dtype() == DType::int64 ? cumsum(mask) : scan(mask);
  Tensor masked = plain(kMul, mask.dtype(), positions, mask);
  Tensor shifted = plain(kSub, mask.dtype(), std::move(masked));
  positions = to(std::move(shifted), DType::int64);
  return positions;
}

std::string name_of(int layer) {
  return "model.decoder.layers." + std::to_string(layer);
}

}  // namespace

OptDecoder::OptDecoder(Tape& tape, const Architecture& architecture, const std::string& path,
                       const ModelOptions& options)
    : Model(tape, architecture, path, options) {
  const std::string body = "model.decoder";
  const std::int64_t hidden = decoder_.hidden, width = decoder_.embedding_dim;
  body_module_ = intern(body);
  embedding_module_ = intern(body + ".embed_tokens");
  position_module_ = intern(body + ".embed_positions");
  register_parameter(*this, body + ".embed_tokens.weight", embedding_, {decoder_.vocabulary, width}, -1);
  register_parameter(*this, body + ".embed_positions.weight", position_table_,
                     {decoder_.position_rows, hidden}, -1);
  if (width != hidden) {
    project_out_.build(*this, body + ".project_out", width, hidden, false, -1);
    project_in_.build(*this, body + ".project_in", hidden, width, false, -1);
  }
  if (decoder_.final_norm.present())
    final_norm_.build(*this, body + ".final_layer_norm", decoder_.final_norm, -1);
  layers_ = std::vector<DecoderLayer>(static_cast<std::size_t>(decoder_.layers));
  for (int i = 0; i < decoder_.layers; ++i) build_layer(layers_[static_cast<std::size_t>(i)], i);
  build_head(embedding_);
}

void OptDecoder::build_layer(DecoderLayer& own, int index) {
  const Layer& spec = decoder_.layer(index);
  const std::string name = name_of(index);
  const std::string attention = name + ".self_attn";
  const std::int64_t hidden = decoder_.hidden;
  own.module = intern(name);
  own.attention_module = intern(attention);
  own.key.build(*this, attention + ".k_proj", hidden, hidden, spec.attention.qkv_bias, index);
  own.value.build(*this, attention + ".v_proj", hidden, hidden, spec.attention.qkv_bias, index);
  own.query.build(*this, attention + ".q_proj", hidden, hidden, spec.attention.qkv_bias, index);
  own.output.build(*this, attention + ".out_proj", hidden, hidden, spec.attention.output_bias, index);
  own.attention_norm.build(*this, name + ".self_attn_layer_norm", spec.attention_norm, index);
  own.up.build(*this, name + ".fc1", spec.mlp.hidden, hidden, spec.mlp.bias, index);
  own.down.build(*this, name + ".fc2", hidden, spec.mlp.hidden, spec.mlp.bias, index);
  own.mlp_norm.build(*this, name + ".final_layer_norm", spec.mlp_norm, index);
}

Tensor OptDecoder::hidden_states(const ModelInput& input) {
  const ModuleScope body(tape_, body_module_);
  const ContainerVisit model(*this, "model"), decoder(*this, "model.decoder");
  const std::int64_t batch = input.ids.size(0), tokens = input.ids.size(1);
  Tensor embeddings = embed(embedding_module_, embedding_, input.ids);
  Tensor mask = input.attention_mask;
  if (!mask.defined()) mask = fill(tape_, {batch, tokens}, DType::fp32);
  Tensor positions = input.position_ids;
  if (!positions.defined()) {
    positions = positions_of(mask);
    positions = slice(std::move(positions), 1, mask.size(1) - tokens, tokens);
  }
  ModelInput given = input;
  given.attention_mask = mask;
  Tensor causal = attention_mask(options_.attention, given, positions, embeddings.dtype());
  given = {};
  Tensor places = embed_positions(
      position_module_, position_table_, [&] { return plain(kAdd, DType::int64, positions); }, mask);
  if (project_in_.weight.defined()) embeddings = project_in_(embeddings);
  Tensor hidden = add(embeddings, places);
  for (int i = 0; i < decoder_.layers; ++i) {
    const DecoderLayer& layer = layers_[static_cast<std::size_t>(i)];
    KvCache* cache = input.cache;
    hidden = run_layer(i, hidden, {positions, causal},
                       [this, &layer, i, cache](const Tensor& in, std::span<const Tensor> kept) {
                         return run(layer, i, in, kept[1], cache);
                       });
  }
  if (final_norm_.norm.present()) hidden = final_norm_(hidden);
  if (project_out_.weight.defined()) hidden = project_out_(hidden);
  drop(mask, embeddings, positions, places, causal);
  return hidden;
}

Tensor OptDecoder::maybe_dropout(Tensor hidden) const {
  if (!options_.training || !options_.dropout || decoder_.dropout <= 0) return hidden;
  return dropout(std::move(hidden));
}

Tensor OptDecoder::run(const DecoderLayer& layer, int index, const Tensor& input, const Tensor& mask,
                       KvCache* cache) {
  const ModuleScope module(tape_, layer.module);
  const bool before = decoder_.layer(index).residual != ResidualKind::post_norm;
  Tensor hidden = input;
  Tensor residual = hidden;
  if (before) hidden = layer.attention_norm(hidden);
  Tensor weights;
  hidden = attend(layer, index, hidden, mask, weights, cache);
  hidden = maybe_dropout(std::move(hidden));
  hidden = add(residual, hidden);
  if (!before) hidden = layer.attention_norm(hidden);
  const std::array<std::int64_t, 3> sizes = {hidden.size(0), hidden.size(1), hidden.size(2)};
  hidden = reshape(std::move(hidden), {-1, sizes[2]});
  residual = hidden;
  if (before) hidden = layer.mlp_norm(hidden);
  hidden = layer.up(hidden);
  {
    const ContainerVisit visit(*this, name_of(index) + ".activation_fn");
    hidden = activation(decoder_.layer(index).mlp.activation, std::move(hidden));
  }
  hidden = layer.down(hidden);
  hidden = maybe_dropout(std::move(hidden));
  Tensor sum = add(residual, hidden);
  hidden = view(std::move(sum), {sizes[0], sizes[1], sizes[2]});
  if (!before) hidden = layer.mlp_norm(hidden);
  drop(residual, weights);
  return hidden;
}

Tensor OptDecoder::attend(const DecoderLayer& layer, int index, const Tensor& hidden, const Tensor& mask,
                          Tensor& weights, KvCache* cache) {
  const ModuleScope module(tape_, layer.attention_module);
  const ContainerVisit visit(*this, name_of(index) + ".self_attn");
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
  const std::int64_t head_dim = decoder_.layer(index).attention.head_dim;
  const auto heads = [&](Tensor projected) {
    return transpose(view(std::move(projected), {batch, -1, decoder_.hidden / head_dim, head_dim}), 1, 2);
  };
  // Queries are scaled before the product of scores.
  Tensor query = heads(mul_scalar(layer.query(hidden)));
  Tensor key = layer.key(hidden);
  Tensor value = layer.value(hidden);
  key = heads(std::move(key));
  value = heads(std::move(value));
  if (cache != nullptr) {
    cache->update(tape_, static_cast<std::size_t>(index), key, value);
    key = cache->layers[static_cast<std::size_t>(index)].keys;
    value = cache->layers[static_cast<std::size_t>(index)].values;
  }
  const EagerForm eager{.dropout = options_.training && options_.dropout && decoder_.attention_dropout > 0};
  Tensor out = attend_heads(options_.attention, query, key, value, mask, weights, eager);
  out = reshape(std::move(out), {batch, tokens, -1});
  out = layer.output(out);
  drop(query, key, value);
  return out;
}

}  // namespace headroom::tape

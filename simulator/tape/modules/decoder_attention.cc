#include "simulator/tape/modules/decoder_attention.h"

#include <algorithm>
#include <array>

#include "simulator/tape/modules/attention_core.h"
#include "simulator/tape/modules/eager_attention.h"
#include "simulator/tape/modules/rotary.h"
#include "simulator/tape/operations/attention.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/experts.h"
#include "simulator/tape/operations/in_place.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kKeys = operation_name("aten::new_empty");

}  // namespace

void DecoderAttention::describe(Model& model, const DecoderForm& form, const Attention& spec,
                                const std::string& name) {
  form_ = &form;
  spec_ = spec;
  hidden_ = model.decoder().hidden;
  // A function's, not a module's: it stays on when modules' dropout is off.
  dropout_ = model.decoder().attention_dropout > 0 && !form.eager_only;
  module_ = model.intern(name);
  for (LinearLayer* layer : {&packed_, &output_}) layer->product = form.product_linears;
}

bool DecoderAttention::build(Model& model, const DecoderForm& form, char part, const Layer& layer,
                             const std::string& name, int index) {
  const Attention& a = layer.attention;
  const std::int64_t queries = a.heads * a.head_dim, keys = a.kv_heads * a.head_dim;
  const auto at = [&](std::string_view module) { return name + "." + std::string(module); };
  switch (part) {
    case 'q':
      query_.build(model, at(form.query), (a.gated ? 2 : 1) * queries, hidden_, a.qkv_bias, index);
      return true;
    case 'k':
      if (!a.borrows) key_.build(model, at(form.key), keys, hidden_, a.qkv_bias, index);
      return true;
    case 'v':
      if (a.value_norm.present()) value_norm_.build(model, at("v_norm"), a.value_norm, index);
      value_norm_.form = norm_form(form);
      if (!a.borrows && !a.key_is_value) value_.build(model, at(form.value), keys, hidden_, a.qkv_bias, index);
      return true;
    case 'f':
      packed_.build(model, at(form.qkv), queries + 2 * keys, hidden_, a.qkv_bias, index);
      return true;
    case 'o':
      output_.build(model, at(form.output), hidden_, a.heads * a.value_head_dim, a.output_bias, index);
      return true;
    case 'S':
      build_sinks(model, name, index);
      return true;
    case 'L':
      build_latent(model, name, index);
      return true;
    case 'Q':
      if (a.query_norm.present()) query_norm_.build(model, at(form.query_norm), a.query_norm, index);
      query_norm_.form = norm_form(form);
      return true;
    case 'K':
      if (a.key_norm.present() && !a.borrows) key_norm_.build(model, at(form.key_norm), a.key_norm, index);
      key_norm_.form = norm_form(form);
      return true;
    default:
      return false;
  }
}

/// Made last, but a parameter of the module itself, which come before those of its children.
void DecoderAttention::build_sinks(Model& model, const std::string& name, int index) {
  if (!spec_.sinks) return;
  register_parameter(model, name + ".sinks", sinks_, {spec_.heads}, index);
  std::vector<ParameterSlot>& slots = model.parameters();
  const auto first = std::find_if(slots.begin(), slots.end(), [&](const ParameterSlot& slot) {
    return slot.name.starts_with(name + ".");
  });
  std::rotate(first, slots.end() - 1, slots.end());
}

void DecoderAttention::build_latent(Model& model, const std::string& name, int index) {
  const Attention& a = spec_;
  const std::int64_t queries = a.heads * a.head_dim;
  if (a.query_rank > 0) {
    query_down_.build(model, name + ".q_a_proj", a.query_rank, hidden_, a.qkv_bias, index);
    query_norm_.build(model, name + ".q_a_layernorm", a.query_norm, index);
    query_.build(model, name + ".q_b_proj", queries, a.query_rank, false, index);
  } else {
    query_.build(model, name + ".q_proj", queries, hidden_, false, index);
  }
  kv_down_.build(model, name + ".kv_a_proj_with_mqa", a.kv_rank + a.rope_dim, hidden_, a.qkv_bias, index);
  key_norm_.build(model, name + ".kv_a_layernorm", a.key_norm, index);
  kv_up_.build(model, name + ".kv_b_proj", a.heads * (a.nope_dim + a.value_head_dim), a.kv_rank, false,
               index);
  output_.build(model, name + ".o_proj", hidden_, a.heads * a.value_head_dim, a.output_bias, index);
}

/// [B,T,heads d] to [B,heads,T,d], through a norm over each head or over all of them.
Tensor DecoderAttention::split_heads(Tensor projected, const NormLayer& norm) const {
  const bool whole = norm.norm.present() && norms_whole();
  if (whole) projected = norm(std::move(projected));
  const std::int64_t batch = projected.size(0), tokens = projected.size(1);
  Tensor heads = view(std::move(projected), {batch, tokens, -1, spec_.head_dim});
  if (norm.norm.present() && !whole) heads = norm(std::move(heads));
  return transpose(std::move(heads), 1, 2);
}

DecoderAttention::Heads DecoderAttention::project(const Tensor& hidden) const {
  if (spec_.kind == AttentionKind::fused_qkv) return unpack(packed_(hidden));
  if (spec_.gated) return project_gated(hidden);
  Heads heads;
  if (form_->late_views) {
    const auto whole = [&](const NormLayer& norm) { return norm.norm.present() && norms_whole(); };
    const NormLayer none;
    heads.query = query_(hidden);
    if (whole(query_norm_)) heads.query = query_norm_(std::move(heads.query));
    heads.key = key_(hidden);
    if (whole(key_norm_)) heads.key = key_norm_(std::move(heads.key));
    heads.value = value_(hidden);
    heads.query = split_heads(std::move(heads.query), whole(query_norm_) ? none : query_norm_);
    heads.key = split_heads(std::move(heads.key), whole(key_norm_) ? none : key_norm_);
    heads.value = split_heads(std::move(heads.value), none);
    return heads;
  }
  const NormLayer none;
  heads.query = split_heads(query_(hidden), form_->late_norms ? none : query_norm_);
  Tensor key = key_(hidden);
  if (spec_.key_is_value) heads.value = split_heads(key, value_norm_);
  heads.key = split_heads(std::move(key), form_->late_norms ? none : key_norm_);
  if (!spec_.key_is_value) heads.value = split_heads(value_(hidden), value_norm_);
  if (form_->late_norms) {
    heads.query = query_norm_(heads.query);
    heads.key = key_norm_(heads.key);
  }
  return heads;
}

/// Queries alone are made and turned; keys and values are another layer's.
DecoderAttention::Heads DecoderAttention::project_borrowed(const Tensor& hidden, const LayerInput& input) const {
  const std::size_t kind = spec_.sliding_window > 0 ? 1 : 0;
  Heads heads;
  heads.query = apply_rotary(split_heads(query_(hidden), query_norm_), input.cos, input.sin);
  heads.key = input.shared_keys->key[kind];
  heads.value = input.shared_keys->value[kind];
  return heads;
}

/// Every head's queries with its gate behind them.
DecoderAttention::Heads DecoderAttention::project_gated(const Tensor& hidden) const {
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1), d = spec_.head_dim;
  Heads heads;
  std::vector<Tensor> parts = split(view(query_(hidden), {batch, tokens, -1, 2 * d}), -1, d);
  heads.gate = reshape(parts[1], {batch, tokens, -1});
  heads.query = transpose(query_norm_(parts[0]), 1, 2);
  parts.clear();
  heads.key = split_heads(key_(hidden), key_norm_);
  heads.value = split_heads(value_(hidden), {});
  return heads;
}

DecoderAttention::Heads DecoderAttention::unpack(Tensor packed) const {
  const std::int64_t batch = packed.size(0), tokens = packed.size(1), d = spec_.head_dim;
  const std::int64_t groups = spec_.heads / spec_.kv_heads;
  Heads heads;
  if (form_->qkv_form == QkvForm::columns) {
    const std::int64_t queries = spec_.heads * d, keys = spec_.kv_heads * d;
    Tensor query = slice(packed, -1, 0, queries), key = slice(packed, -1, queries, keys),
           value = slice(packed, -1, queries + keys, keys);
    heads.query = split_heads(std::move(query), {});
    heads.key = split_heads(std::move(key), {});
    heads.value = split_heads(std::move(value), {});
  } else if (form_->qkv_form == QkvForm::by_head) {
    const Tensor parts = view(packed, {batch, tokens, spec_.heads, 3, d});
    heads.query = transpose(select(parts, 3, 0), 1, 2);
    heads.key = transpose(select(parts, 3, 1), 1, 2);
    heads.value = transpose(select(parts, 3, 2), 1, 2);
  } else if (form_->qkv_form == QkvForm::shared) {
    const Tensor parts = view(packed, {batch, tokens, spec_.heads + 2, d});
    heads.query = transpose(slice(parts, 2, 0, spec_.heads), 1, 2);
    heads.key = transpose(index_one(parts, 2), 1, 2);
    heads.value = transpose(index_one(parts, 2), 1, 2);
  } else {
    const Tensor parts = view(packed, {batch, tokens, spec_.kv_heads, groups + 2, d});
    const auto flat = [&](const Tensor& part) {
      return transpose(reshape(part, {batch, tokens, -1, d}), 1, 2);
    };
    if (form_->qkv_form == QkvForm::widened) {
      const Tensor query = slice(parts, 3, 0, groups);
      const Tensor one_key = index_one(parts, 3), one_value = index_one(parts, 3);
      const auto wide = [&](const Tensor& one) {
        return expand(one, {batch, tokens, spec_.kv_heads, groups, d});
      };
      const Tensor key = wide(one_key), value = wide(one_value);
      heads.query = flat(query);
      heads.key = flat(key);
      heads.value = flat(value);
    } else {
      heads.query = flat(slice(parts, 3, 0, groups));
      heads.key = transpose(squeeze(slice(parts, 3, groups, 1), 3), 1, 2);
      heads.value = transpose(squeeze(slice(parts, 3, groups + 1, 1), 3), 1, 2);
    }
  }
  heads.packed = std::move(packed);
  return heads;
}

DecoderAttention::Heads DecoderAttention::project_latent(const Tensor& hidden,
                                                         const LayerInput& input) const {
  const Attention& a = spec_;
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
  Tensor query;
  if (a.query_rank > 0)
    query = query_(query_norm_(query_down_(hidden)));
  else
    query = query_(hidden);
  query = transpose(view(std::move(query), {batch, tokens, -1, a.head_dim}), 1, 2);
  std::vector<Tensor> parts = split(query, -1, std::array{a.nope_dim, a.rope_dim});
  const Tensor query_pass = std::move(parts[0]);
  Tensor query_turned = std::move(parts[1]);
  Tensor compressed = kv_down_(hidden);
  parts = split(compressed, -1, std::array{a.kv_rank, a.rope_dim});
  Tensor latent = view(key_norm_(parts[0]), {batch, 1, tokens, a.kv_rank});
  Tensor key_turned = view(std::move(parts[1]), {batch, 1, tokens, a.rope_dim});
  parts.clear();
  Heads heads;
  rotate(form_->rotary, query_turned, key_turned, input.cos, input.sin, heads.held);
  // The cache holds what is compressed.
  if (input.cache != nullptr) {
    const auto layer = static_cast<std::size_t>(input.index);
    input.cache->update(hidden.tape(), layer, latent, key_turned);
    latent = input.cache->layers[layer].keys;
    key_turned = input.cache->layers[layer].values;
  }
  heads.query = cat(query_pass, query_turned, -1);
  expand_latent(heads, latent, key_turned);
  heads.held = {std::move(query), std::move(query_turned), std::move(compressed), std::move(latent),
                std::move(key_turned)};
  return heads;
}

/// Keys and values [B,heads,columns,..] out of what is compressed, [B,1,columns,rank], and the part that
/// turned.
void DecoderAttention::expand_latent(Heads& heads, const Tensor& latent, const Tensor& turned) const {
  const Attention& a = spec_;
  const std::int64_t batch = latent.size(0), columns = latent.size(2);
  Tensor both = view(kv_up_(latent), {batch, columns, -1, a.nope_dim + a.value_head_dim});
  both = transpose(std::move(both), 1, 2);
  std::vector<Tensor> parts = split(both, -1, std::array{a.nope_dim, a.value_head_dim});
  const Tensor wide = expand(turned, {batch, a.heads, columns, a.rope_dim});
  Tensor key = latent.tape().empty({batch, a.heads, columns, a.head_dim}, both.dtype(), kKeys);
  key = copy_into_part(std::move(key), parts[0]);
  heads.key = copy_into_part(std::move(key), wide);
  heads.value = std::move(parts[1]);
}

Tensor DecoderAttention::attend(const ModelOptions& options, Heads& heads, const Tensor& mask,
                                Tensor& weights) const {
  if (options.attention == AttentionImplementation::eager) {
    const EagerForm eager{.scaled = !form_->unscaled_scores,
                          .fp32 = form_->fp32_scores,
                          .softcap = spec_.softcap > 0,
                          .divided_in_place = form_->always_masked && !form_->alibi_in_mask,
                          .dropout = options.training && dropout_,
                          .sinks = sinks_.defined() ? &sinks_ : nullptr};
    return attend_eagerly(eager, heads.query, heads.key, heads.value, mask, weights);
  }
  Tensor out;
  if (mask.defined()) {
    // SDPA widens grouped heads itself only without a mask.
    const std::int64_t wide = form_->always_masked ? heads.key.size(1) : spec_.heads;
    const Tensor key = repeat_heads(heads.key, wide), value = repeat_heads(heads.value, wide);
    out = masked_attention(heads.query, key, value, mask);
  } else {
    out = attention_core(options, heads.query, heads.key, heads.value);
  }
  return transpose(std::move(out), 1, 2);
}

Tensor DecoderAttention::operator()(const ModelOptions& options, const Tensor& hidden,
                                    const LayerInput& input, Tensor& weights) const {
  Tape& tape = hidden.tape();
  const ModuleScope module(tape, module_);
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1) * options.token_ranks;
  Heads heads;
  if (spec_.kind == AttentionKind::latent) {
    heads = project_latent(hidden, input);
  } else if (spec_.borrows) {
    heads = project_borrowed(hidden, input);
  } else {
    heads = project(hidden);
    if (spec_.rotary_dim > 0) rotate(form_->rotary, heads.query, heads.key, input.cos, input.sin, heads.held);
  }
  if (input.cache != nullptr && spec_.kind != AttentionKind::latent && !spec_.borrows) {
    const auto layer = static_cast<std::size_t>(input.index);
    if (spec_.sliding_window > 0) {
      input.cache->slide(tape, layer, heads.key, heads.value, spec_.sliding_window);
    } else {
      input.cache->update(tape, layer, heads.key, heads.value);
      heads.key = input.cache->layers[layer].keys;
      heads.value = input.cache->layers[layer].values;
    }
  }
  if (input.lends) {
    const std::size_t kind = spec_.sliding_window > 0 ? 1 : 0;
    input.shared_keys->key[kind] = heads.key;
    input.shared_keys->value[kind] = heads.value;
  }
  Tensor out = attend(options, heads, input.mask, weights);
  out = reshape(std::move(out), {batch, tokens, -1});
  if (heads.gate.defined()) out = mul(out, sigmoid(heads.gate));
  out = output_(out);
  drop(heads.packed, heads.gate, heads.query, heads.key, heads.value);
  for (Tensor& variable : heads.held) variable.reset();
  return out;
}

}  // namespace headroom::tape

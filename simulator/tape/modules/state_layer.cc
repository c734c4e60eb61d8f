#include "simulator/tape/modules/state_layer.h"

#include <array>
#include <utility>
#include <vector>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/state_kernels.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kState = operation_name("recurrent_state");

/// Each head of keys for all the heads of values that read it: a copy.
Tensor repeat_interleave(const Tensor& x, std::int64_t times) {
  const std::int64_t batch = x.size(0), tokens = x.size(1), groups = x.size(2), width = x.size(3);
  return reshape(expand(unsqueeze(x, 3), {batch, tokens, groups, times, width}),
                 {batch, tokens, groups * times, width});
}

}  // namespace

void StateLayer::build(Model& model, MixerKind kind, const StateMixer& spec, const std::string& name,
                       int index) {
  kind_ = kind;
  spec_ = spec;
  module_ = model.intern(name);
  build_own(model, name, index);
  if (kind == MixerKind::mamba2)
    build_mamba2(model, name, index);
  else
    build_gated_delta(model, name, index);
}

/// The module's own parameters and the convolution's.
void StateLayer::build_own(Model& model, const std::string& name, int index) {
  register_parameter(model, name + ".dt_bias", dt_bias_, {spec_.heads}, index);
  register_parameter(model, name + ".A_log", decay_, {spec_.heads}, index);
  if (kind_ == MixerKind::mamba2) register_parameter(model, name + ".D", skip_, {spec_.heads}, index);
  register_parameter(model, name + ".conv1d.weight", convolution_, {spec_.channels(), 1, spec_.kernel},
                     index);
  if (spec_.convolution_bias)
    register_parameter(model, name + ".conv1d.bias", convolution_bias_, {spec_.channels()}, index);
}

void StateLayer::build_gated_delta(Model& model, const std::string& name, int index) {
  const std::int64_t hidden = model.decoder().hidden;
  const auto norm_and_output = [&] {
    register_parameter(model, name + ".norm.weight", norm_, {spec_.norm.size}, index);
    output_.build(model, name + ".out_proj", hidden, spec_.values(), false, index);
  };
  if (spec_.fused_projection) {
    projection_.build(model, name + ".in_proj_qkvz", spec_.channels() + spec_.values(), hidden, false, index);
    beta_.build(model, name + ".in_proj_ba", 2 * spec_.heads, hidden, false, index);
    norm_and_output();
    return;
  }
  norm_and_output();
  projection_.build(model, name + ".in_proj_qkv", spec_.channels(), hidden, false, index);
  gate_.build(model, name + ".in_proj_z", spec_.values(), hidden, false, index);
  beta_.build(model, name + ".in_proj_b", spec_.heads, hidden, false, index);
  alpha_.build(model, name + ".in_proj_a", spec_.heads, hidden, false, index);
}

void StateLayer::build_mamba2(Model& model, const std::string& name, int index) {
  const std::int64_t hidden = model.decoder().hidden;
  projection_.build(model, name + ".in_proj", spec_.values() + spec_.channels() + spec_.heads, hidden,
                    spec_.projection_bias, index);
  register_parameter(model, name + ".norm.weight", norm_, {spec_.norm.size}, index);
  output_.build(model, name + ".out_proj", hidden, spec_.values(), spec_.projection_bias, index);
}

/// What the cache keeps of a sequence, made with the first tokens and written over by later ones.
void StateLayer::keep(Tape& tape, const LayerInput& input, std::int64_t batch, DType dtype) const {
  const ComponentScope component(tape, Component::kv_cache);
  auto& layers = input.cache->layers;
  const auto layer = static_cast<std::size_t>(input.index);
  if (layers.size() <= layer) layers.resize(layer + 1);
  if (layers[layer].convolution.defined()) return;
  layers[layer].convolution = tape.empty({batch, spec_.channels(), spec_.kernel}, dtype, kState);
  layers[layer].recurrence = tape.empty({batch, spec_.heads, spec_.key_dim, spec_.value_dim},
                                        kind_ == MixerKind::mamba2 ? dtype : DType::fp32, kState);
}

Tensor StateLayer::operator()(const Tensor& hidden, const LayerInput& input) const {
  const ModuleScope module(hidden.tape(), module_);
  return kind_ == MixerKind::mamba2 ? mamba2(hidden, input) : gated_delta(hidden, input);
}

Tensor StateLayer::gated_delta(const Tensor& hidden, const LayerInput& input) const {
  Tape& tape = hidden.tape();
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1), keys = spec_.groups * spec_.key_dim;
  Tensor mixed, gate, beta, alpha;
  std::vector<Tensor> parts;
  if (spec_.fused_projection) {
    // Heads of one group lie beside each other: parts are joined again for the convolution.
    const Tensor both = projection_(hidden), both_small = beta_(hidden);
    parts = split(both, -1, std::array{keys, keys, spec_.values(), spec_.values()});
    gate = reshape(parts[3], {batch, tokens, -1, spec_.value_dim});
    std::vector<Tensor> small = split(both_small, -1, spec_.heads);
    beta = reshape(small[0], {batch, tokens, spec_.heads});
    alpha = reshape(small[1], {batch, tokens, spec_.heads});
    parts.pop_back();
    mixed = cat(parts, -1);
    parts.clear();
  } else {
    mixed = projection_(hidden);
    gate = view(gate_(hidden), {batch, tokens, -1, spec_.value_dim});
    beta = beta_(hidden);
    alpha = alpha_(hidden);
  }
  if (input.cache != nullptr) keep(tape, input, batch, hidden.dtype());
  mixed = causal_conv1d(std::move(mixed), convolution_, convolution_bias_);
  parts = split(mixed, -1, std::array{keys, keys, spec_.values()});
  Tensor query = view(parts[0], {batch, tokens, -1, spec_.key_dim});
  Tensor key = view(parts[1], {batch, tokens, -1, spec_.key_dim});
  Tensor value = view(parts[2], {batch, tokens, -1, spec_.value_dim});
  parts.clear();
  beta = sigmoid(beta);
  Tensor rate = neg(exp(to(decay_, DType::fp32)));
  Tensor decay = mul(std::move(rate), softplus(add(to(alpha, DType::fp32), dt_bias_)));
  if (const std::int64_t times = spec_.heads / spec_.groups; times > 1) {
    query = repeat_interleave(query, times);
    key = repeat_interleave(key, times);
  }
  Tensor last;
  Tensor out = chunk_gated_delta_rule(query, key, value, decay, beta, spec_.chunk,
                                      input.cache != nullptr ? &last : nullptr);
  if (last.defined()) input.cache->layers[static_cast<std::size_t>(input.index)].recurrence = std::move(last);
  out = view(out, {-1, spec_.value_dim});
  gate = reshape(gate, {-1, spec_.value_dim});
  out = gated_rms_norm(std::move(out), gate, norm_);
  out = view(std::move(out), {batch, tokens, -1});
  Tensor result = output_(out);
  drop(mixed, gate, beta, alpha, query, key, value, decay, out);
  return result;
}

Tensor StateLayer::mamba2(const Tensor& hidden, const LayerInput& input) const {
  const std::int64_t batch = hidden.size(0);
  if (input.cache != nullptr) keep(hidden.tape(), input, batch, hidden.dtype());
  Tensor projected = projection_(hidden);
  Tensor decay = neg(exp(to(decay_, DType::fp32)));
  const Mamba2Weights weights{convolution_, convolution_bias_, dt_bias_,    decay, skip_,
                              norm_,        output_.weight,    output_.bias};
  Tensor out = mamba2_combined(projected, weights,
                               {spec_.heads, spec_.groups, spec_.key_dim, spec_.value_dim, spec_.chunk});
  drop(projected, decay);
  return out;
}

}  // namespace headroom::tape

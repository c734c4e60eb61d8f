#include "simulator/tape/modules/layers.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/modules/module_hooks.h"
#include "simulator/tape/modules/sequence_split.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/dropout.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/norm.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape {
namespace {

/// LlamaRMSNorm.forward; Olmo2RMSNorm casts last.
Tensor rms_norm(const NormLayer& layer, const Tensor& input) {
  const DType dtype = input.dtype();
  Tensor hidden = to(input, DType::fp32);
  Tensor squares = pow(hidden);
  Tensor variance = mean(std::move(squares), -1, true);
  Tensor shifted = add_scalar(variance);
  Tensor scale = rsqrt(std::move(shifted));
  hidden = mul(hidden, std::move(scale));
  Tensor out;
  if (!layer.norm.weight) {
    out = to(hidden, dtype);
  } else if (layer.form == NormForm::late_cast) {
    out = to(mul(layer.weight, hidden), dtype);
  } else {
    Tensor narrow = to(hidden, dtype);
    out = mul(layer.weight, std::move(narrow));
  }
  drop(hidden, variance);
  return out;
}

/// CohereLayerNorm.forward.
Tensor python_layer_norm(const NormLayer& layer, const Tensor& input) {
  Tensor hidden = to(input, DType::fp32);
  Tensor centre = mean(hidden, -1, true);
  Tensor variance = mean(pow(sub(hidden, centre)), -1, true);
  {
    Tensor centred = sub(hidden, centre);
    Tensor scale = rsqrt(add_scalar(variance));
    hidden = mul(std::move(centred), std::move(scale));
  }
  hidden = mul(to(layer.weight, DType::fp32), std::move(hidden));
  Tensor out = to(hidden, input.dtype());
  drop(hidden, centre, variance);
  return out;
}

/// OlmoLayerNorm.forward.
Tensor weightless_layer_norm(const Tensor& input) {
  return to(layer_norm(to(input, DType::fp32), {}, {}), input.dtype());
}

/// GemmaRMSNorm.forward: (1 + weight) in fp32, one cast at the end.
Tensor rms_norm_plus_one(const NormLayer& layer, const Tensor& input) {
  Tensor wide = to(input, DType::fp32);
  Tensor squares = pow(wide);
  Tensor variance = mean(std::move(squares), -1, true);
  Tensor shifted = add_scalar(std::move(variance));
  Tensor scale = rsqrt(std::move(shifted));
  Tensor output = mul(wide, std::move(scale));
  wide.reset();
  Tensor weight = to(layer.weight, DType::fp32);
  Tensor gain = add_scalar(std::move(weight));
  output = mul(output, std::move(gain));
  return to(std::move(output), input.dtype());
}

/// NewGELUActivation: half x (1 + tanh(a (x + b x^3))).
Tensor gelu_new(Arg input) {
  Tensor half = mul_scalar(*input);
  Tensor inner = mul_scalar(pow(*input));
  inner = add(*input, std::move(inner));
  inner = tanh(mul_scalar(std::move(inner)));
  Tensor gate = add_scalar(std::move(inner));
  Tensor out = mul(std::move(half), std::move(gate));
  done(input);
  return out;
}

}  // namespace

void LinearLayer::build(Model& model, const std::string& name, std::int64_t out, std::int64_t in,
                        bool with_bias, int layer) {
  owner = &model;
  module = model.intern(name);
  model.linears().push_back({name, this, layer});
  register_weight(model, name + ".weight", {out, in}, layer);
  if (with_bias) register_parameter(model, name + ".bias", bias, {out}, layer);
}

/// bitsandbytes replaces every linear of the body; heads keep their dtype.
void LinearLayer::register_weight(Model& model, const std::string& name, const Shape& shape, int layer) {
  const ModelOptions& options = model.options();
  const bool head = name.starts_with("v_head");
  if (!options.frozen || head) return register_parameter(model, name, weight, shape, layer);
  register_parameter(model, name, weight, shape, layer, *options.frozen);
  scales = std::make_unique<FourBitScales>(model.tape(), weight.elements());
  for (Tensor* tensor : scales->tensors()) model.register_buffer(*tensor);
}

/// The adapter's branch runs in its own dtype on a cast of the input.
Tensor LinearLayer::adapted(const Tensor& input, Tensor result) const {
  const DType dtype = result.dtype();
  const ModuleScope scope(input.tape(), lora->module);
  UnitHooks* hooks = owner->hooks;
  const bool drops = lora->dropout && owner->options().training;
  // PEFT asks for the weight's dtype before the weight is gathered. The product takes the gathered one's.
  Tensor x = to(input, lora->a.defined() ? lora->a.dtype() : lora->dtype);
  Tensor dropped = drops ? dropout(x) : Tensor();
  if (hooks != nullptr) hooks->before_leaf(lora->a);
  Tensor fed = to(drops ? std::move(dropped) : x, lora->a.dtype());
  Tensor thin = linear(std::move(fed), lora->a, {});
  if (hooks != nullptr) hooks->after_leaf(lora->a, thin);
  if (hooks != nullptr) hooks->before_leaf(lora->b);
  Tensor wide = linear(std::move(thin), lora->b, {});
  if (hooks != nullptr) hooks->after_leaf(lora->b, wide);
  Tensor scaled = mul_scalar(std::move(wide));
  result = add(result, std::move(scaled));
  result = to(std::move(result), dtype);
  x.reset();
  return result;
}

Tensor LinearLayer::operator()(Arg input) const {
  Tape& tape = input->tape();
  const ModuleScope scope(tape, module);
  return between_hooks(module_hooks(*owner), module, input, [&](const Tensor& x) {
    const Tensor in = gathers > 1 ? gather_tokens(x, gathers) : x;
    Tensor out = scales    ? linear_four_bit(in, weight, *scales, bias)
                 : product ? linear_by_product(in, weight, bias)
                           : linear(in, weight, bias);
    if (lora && owner->options().adapters) out = adapted(in, std::move(out));
    return scatters > 1 ? scatter_tokens(std::move(out), scatters) : out;
  });
}

NormForm norm_form(const DecoderForm& form) {
  if (form.python_norm) return NormForm::python;
  return form.late_norm_cast ? NormForm::late_cast : NormForm::standard;
}

void NormLayer::build(Model& model, const std::string& name, const Norm& kind, int layer) {
  norm = kind;
  owner = &model;
  module = model.intern(name);
  if (kind.weight) register_parameter(model, name + ".weight", weight, {kind.size}, layer);
  if (kind.kind == NormKind::layer && kind.bias)
    register_parameter(model, name + ".bias", bias, {kind.size}, layer);
}

Tensor NormLayer::operator()(Arg input) const {
  Tape& tape = input->tape();
  const ModuleScope scope(tape, module);
  return between_hooks(module_hooks(*owner), module, input, [&](const Tensor& x) {
    if (norm.kind == NormKind::layer && form == NormForm::python) return python_layer_norm(*this, x);
    if (norm.kind == NormKind::layer && !norm.weight) return weightless_layer_norm(x);
    if (norm.kind == NormKind::layer) return layer_norm(x, weight, bias);
    return norm.plus_one ? rms_norm_plus_one(*this, x) : rms_norm(*this, x);
  });
}

Tensor activation(const std::string& name, Arg input) {
  if (name == "gelu_new") return gelu_new(input);
  if (name == "relu") return relu(input);
  if (name == "relu2") return pow(relu(input));
  if (name == "silu" || name == "swish") return silu(input);
  return gelu(input);
}

}  // namespace headroom::tape

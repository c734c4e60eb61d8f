#include "simulator/tape/modules/decoder_mlp.h"

#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
void DecoderMlp::build(Model& model, const DecoderForm& form, const Mlp& spec, const std::string& name,
                       int index) {
  spec_ = spec;
  fp32_router_ = form.router == RouterForm::softmax_fp32 || form.router == RouterForm::sigmoid_fp32;
  module_ = model.intern(name);
  if (spec.kind == MlpKind::experts)
    build_experts(model, form, name, index);
  else
    build_dense(model, form, name, spec.hidden, spec.bias, index);
}

void DecoderMlp::build_dense(Model& model, const DecoderForm& form, const std::string& name,
                             std::int64_t width, bool bias, int index) {
  const std::int64_t hidden = model.decoder().hidden;
  const auto at = [&](std::string_view module) { return name + "." + std::string(module); };
  for (LinearLayer* layer : {&gate_, &up_, &down_}) layer->product = form.product_linears;
  for (const char part : form.mlp_order) {
    if (part == 'd') {
      down_.build(model, at(form.down), hidden, width, bias, index);
    } else if (spec_.fused_gate_up) {
      if (part == 'g') gate_.build(model, at(form.gate_up), 2 * width, hidden, bias, index);
    } else if (part == 'u') {
      up_.build(model, at(form.up), width, hidden, bias, index);
    } else if (spec_.kind != MlpKind::plain) {
      gate_.build(model, at(form.gate), width, hidden, bias, index);
    }
  }
}

void DecoderMlp::build_experts(Model& model, const DecoderForm& form, const std::string& name, int index) {
  const std::int64_t hidden = model.decoder().hidden;
  const std::string shared = name + "." + std::string(form.shared);
  for (const char part : form.experts_order) {
    if (part == 'r') {
      router_.build(model, form, spec_, name + "." + std::string(form.router_module), index);
    } else if (part == 'e') {
      experts_.build(model, form, spec_, name + ".experts", index);
    } else if (part == 's' && spec_.shared_hidden > 0) {
      shared_ = std::make_unique<DecoderMlp>();
      shared_->build(model, form,
                     {.kind = spec_.plain_experts ? MlpKind::plain : MlpKind::gated,
                      .activation = spec_.activation,
                      .hidden = spec_.shared_hidden},
                     shared, index);
    } else if (part == 'l' && spec_.latent > 0) {
      narrow_.build(model, name + ".fc1_latent_proj", spec_.latent, hidden, false, index);
      widen_.build(model, name + ".fc2_latent_proj", hidden, spec_.latent, false, index);
    } else if (part == 'x' && spec_.shared_gate) {
      shared_gate_.build(model, shared + "_gate", 1, hidden, false, index);
    }
  }
}

Tensor DecoderMlp::operator()(const Tensor& hidden, bool decoding) const {
  const ModuleScope module(hidden.tape(), module_);
  return spec_.kind == MlpKind::experts ? mixture(hidden, decoding) : dense(hidden);
}

Tensor DecoderMlp::dense(const Tensor& hidden) const {
  if (spec_.kind == MlpKind::plain) {
    Tensor wide = up_(hidden);
    wide = activation(spec_.activation, std::move(wide));
    return down_(std::move(wide));
  }
  if (spec_.fused_gate_up) {
    std::vector<Tensor> halves = split(gate_(hidden), -1, spec_.hidden);
    Tensor gate = std::move(halves[0]), up = std::move(halves[1]);
    up = mul(up, activation(spec_.activation, gate));
    Tensor out = down_(up);
    drop(up, gate);
    return out;
  }
  Tensor gate = gate_(hidden);
  gate = activation(spec_.activation, std::move(gate));
  Tensor up = up_(hidden);
  return down_(mul(std::move(gate), std::move(up)));
}

Tensor DecoderMlp::mixture(const Tensor& hidden, bool decoding) const {
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1), width = hidden.size(2);
  Tensor rows, beside;
  Routing routing;
  if (fp32_router_) {  // DeepSeek's router flattens for itself
    routing = router_(hidden);
    rows = view(hidden, {-1, width});
  } else {
    rows = view(hidden, {-1, width});
    if (shared_ && spec_.shared_gate) beside = (*shared_)(rows);
    routing = router_(rows);
  }
  if (spec_.latent > 0) rows = narrow_(rows);
  Tensor out = experts_(rows, routing, decoding);
  if (spec_.latent > 0) out = widen_(std::move(out));
  if (spec_.shared_gate) {
    beside = mul(sigmoid(shared_gate_(rows)), beside);
    out = add(out, beside);
    beside.reset();
  }
  out = view(std::move(out), {batch, tokens, width});
  if (shared_ && !spec_.shared_gate) out = add(out, (*shared_)(hidden));
  drop(routing.logits, routing.weights, routing.chosen);
  return out;
}

}  // namespace headroom::tape

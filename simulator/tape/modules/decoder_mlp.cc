#include "simulator/tape/modules/decoder_mlp.h"

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/experts.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kPlaces = operation_name("expert_places"), kCounts = operation_name("aten::histc"),
                    kGroups = operation_name("expert_groups");

/// Normalised over the chosen experts, in the dtype of the rows.
Tensor normalised(Tensor weights, DType dtype) {
  Tensor total = sum(weights, 2u, true);
  weights = div(std::move(weights), std::move(total));
  return to(std::move(weights), dtype);
}

}  // namespace

void DecoderMlp::build(Model& model, const DecoderForm& form, const Mlp& spec, const std::string& name,
                       int index) {
  spec_ = spec;
  router_form_ = form.router;
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
      register_parameter(model, name + ".gate.weight", router_, {spec_.experts, hidden}, index);
    } else if (part == 'e') {
      register_parameter(model, name + ".experts.gate_up_proj", gate_up_experts_,
                         {spec_.experts, 2 * spec_.hidden, hidden}, index);
      register_parameter(model, name + ".experts.down_proj", down_experts_,
                         {spec_.experts, hidden, spec_.hidden}, index);
    } else if (part == 's' && spec_.shared_hidden > 0) {
      shared_ = std::make_unique<DecoderMlp>();
      shared_->build(model, form,
                     {.kind = MlpKind::gated, .activation = spec_.activation, .hidden = spec_.shared_hidden},
                     shared, index);
    } else if (part == 'x' && spec_.shared_gate) {
      shared_gate_.build(model, shared + "_gate", 1, hidden, false, index);
    }
  }
}

Tensor DecoderMlp::operator()(const Tensor& hidden) const {
  const ModuleScope module(hidden.tape(), module_);
  return spec_.kind == MlpKind::experts ? mixture(hidden) : dense(hidden);
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

/// The halves of one projection: act(gate) * up.
Tensor DecoderMlp::gated(Tensor both) const {
  std::vector<Tensor> halves = split(std::move(both), -1, spec_.hidden);
  Tensor act = activation(spec_.activation, halves[0]);
  return mul(std::move(act), halves[1]);
}

std::pair<Tensor, Tensor> DecoderMlp::route(const Tensor& rows) const {
  if (router_form_ == RouterForm::softmax) {
    Tensor scores = softmax(linear(rows, router_, {}), DType::fp32);
    auto [weights, chosen] = topk(scores, spec_.experts_per_token);
    return {normalised(std::move(weights), rows.dtype()), std::move(chosen)};
  }
  Tensor wide = to(rows, DType::fp32);
  Tensor logits = linear(std::move(wide), to(router_, DType::fp32), {});
  if (router_form_ == RouterForm::softmax_fp32) {
    Tensor scores = softmax(std::move(logits), DType::fp32);
    auto [weights, chosen] = topk(std::move(scores), spec_.experts_per_token);
    return {mul_scalar(std::move(weights)), std::move(chosen)};
  }
  Tensor scores = sigmoid(std::move(logits));
  Tensor chosen;
  {
    // Choosing happens without gradients, on scores with a correction, groups of experts first.
    const GradMode no_grad(rows.tape(), false);
    const Tensor corrected = add_scalar(scores);
    const Tensor open = plain(kGroups, DType::boolean, corrected);
    const Tensor masked = masked_fill(corrected, open);
    chosen = topk(masked, spec_.experts_per_token).second;
  }
  Tensor weights = normalised(gather(scores, chosen), DType::fp32);
  return {mul_scalar(std::move(weights)), std::move(chosen)};
}

Tensor DecoderMlp::experts(const Tensor& rows, const Tensor& weights, const Tensor& chosen) const {
  Tape& tape = rows.tape();
  const std::int64_t tokens = rows.size(0), hidden = rows.size(1);
  Tensor sample_weights = reshape(weights, {-1});
  auto [sorted, order] = sort(reshape(chosen, {-1}));
  Tensor selected = index_rows(rows, plain(kPlaces, DType::int64, order));
  Tensor sorted_weights = index_rows(sample_weights, order);
  Tensor counts;
  {
    const Tensor narrow = plain(kCounts, DType::int32, sorted);
    counts = tape.empty({spec_.experts}, DType::int32, kCounts);
  }
  Tensor offsets = tape.empty({spec_.experts}, DType::int32, kPlaces);
  Tensor beyond = unsqueeze(plain(kPlaces, DType::boolean, sorted), -1);
  sorted = plain(kPlaces, DType::int64, std::move(sorted));
  Tensor out = grouped_mm(selected, gate_up_experts_, offsets);
  out = gated(std::move(out));
  out = grouped_mm(std::move(out), down_experts_, offsets);
  out = mul(std::move(out), unsqueeze(sorted_weights, -1));
  Tensor back = plain(kPlaces, DType::int64, order);
  out = index_rows(std::move(out), back);
  out = sum(view(std::move(out), {tokens, -1, hidden}), 2u, false);
  return to(std::move(out), rows.dtype());
}

Tensor DecoderMlp::mixture(const Tensor& hidden) const {
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1), width = hidden.size(2);
  Tensor rows = view(hidden, {-1, width});
  Tensor beside;
  if (shared_ && shared_gate_.weight.defined()) beside = (*shared_)(rows);
  Tensor out;
  {
    auto [weights, chosen] = route(rows);
    out = experts(rows, weights, chosen);
  }
  if (shared_gate_.weight.defined()) {
    Tensor share = sigmoid(shared_gate_(rows));
    beside = mul(std::move(share), std::move(beside));
    out = add(std::move(out), std::move(beside));
    return view(std::move(out), {batch, tokens, width});
  }
  out = view(std::move(out), {batch, tokens, width});
  if (shared_) out = add(std::move(out), (*shared_)(hidden));
  return out;
}

}  // namespace headroom::tape

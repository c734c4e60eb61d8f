#include "simulator/tape/modules/router.h"

#include <tuple>
#include <utility>
#include <vector>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/experts.h"
#include "simulator/tape/operations/in_place.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kGroups = operation_name("expert_groups"), kCorrection = operation_name("parameter");

/// Best experts of a group whose scores stand for it (DeepSeek-V3).
constexpr std::int64_t kBestOfGroup = 2;

}  // namespace

void Router::build(Model& model, const DecoderForm& form, const Mlp& spec, const std::string& name,
                   int index) {
  form_ = form.router;
  spec_ = spec;
  register_parameter(model, name + ".weight", weight_, {spec.experts, model.decoder().hidden}, index);
  if (spec.router_bias) register_parameter(model, name + ".bias", bias_, {spec.experts}, index);
  if (form_ != RouterForm::sigmoid_fp32) return;
  Tape& tape = model.tape();
  const ModuleScope scope(tape, model.intern(name));
  const ComponentScope component(tape, Component::weights);
  correction_ = tape.empty({spec.experts}, model.options().dtype, kCorrection);
  model.register_buffer(correction_);
}

Routing Router::operator()(const Tensor& hidden) const {
  const Tensor rows = reshape(hidden, {-1, hidden.size(-1)});
  switch (form_) {
    case RouterForm::softmax_last:
      return softmax_last(rows);
    case RouterForm::softmax_fp32:
      return softmax_fp32(rows);
    case RouterForm::sigmoid_fp32:
      return sigmoid_fp32(rows);
    default:
      return softmax_first(rows);
  }
}

Routing Router::softmax_first(const Tensor& rows) const {
  Routing out;
  out.logits = linear(rows, weight_, {});
  Tensor scores = softmax(out.logits, DType::fp32);
  std::tie(out.weights, out.chosen) = topk(scores, spec_.experts_per_token);
  if (spec_.normalized) {
    const Tensor total = sum(out.weights, 2u, true);
    out.weights = div_in_place_by(std::move(out.weights), total);
  }
  if (form_ == RouterForm::softmax_cast) out.weights = to(out.weights, out.logits.dtype());
  return out;
}

Routing Router::softmax_last(const Tensor& rows) const {
  Routing out;
  out.logits = linear(rows, weight_, bias_);
  Tensor best;
  std::tie(best, out.chosen) = topk(out.logits, spec_.experts_per_token);
  out.weights = softmax(best, best.dtype());
  return out;
}

Tensor Router::fp32_logits(const Tensor& rows) const {
  Tensor wide = to(rows, DType::fp32);
  Tensor weight = to(weight_, DType::fp32);
  Tensor logits = linear(wide, weight, {});
  drop(wide, weight);
  return logits;
}

/// Experts outside the best groups, as booleans [N,E]; `held` takes what the router's code keeps.
Tensor Router::closed_experts(const Tensor& scores, std::vector<Tensor>& held) const {
  const std::int64_t rows = scores.size(0), size = spec_.experts / spec_.expert_groups;
  Tensor best = topk(scores, spec_.open_groups).second;
  Tensor open = plain(kGroups, scores.dtype(), scores);
  Tensor wide = expand(unsqueeze(open, -1), {rows, spec_.expert_groups, size});
  Tensor experts = reshape(std::move(wide), {rows, spec_.experts});
  Tensor flags = plain(kGroups, DType::boolean, experts);
  Tensor closed = plain(kGroups, DType::boolean, std::move(flags));
  for (Tensor* tensor : {&best, &open, &experts}) held.push_back(std::move(*tensor));
  return closed;
}

Routing Router::softmax_fp32(const Tensor& rows) const {
  Routing out;
  out.logits = fp32_logits(rows);
  Tensor scores = softmax(out.logits, DType::fp32);
  std::vector<Tensor> held;
  if (spec_.expert_groups > 0) {
    const std::int64_t size = spec_.experts / spec_.expert_groups;
    // A group stands for its best expert.
    held.push_back(squeeze(topk(view(scores, {-1, spec_.expert_groups, size}), 1).first, -1));
    const Tensor closed = closed_experts(held.front(), held);
    scores = masked_fill(scores, closed);
  }
  std::tie(out.weights, out.chosen) = topk(scores, spec_.experts_per_token);
  out.weights = mul_scalar(out.weights);
  return out;
}

Routing Router::sigmoid_fp32(const Tensor& rows) const {
  Routing out;
  out.logits = fp32_logits(rows);
  Tensor scores = sigmoid(out.logits);
  Tensor corrected = add(scores, correction_);
  std::vector<Tensor> held;
  if (spec_.expert_groups > 0) {
    const std::int64_t size = spec_.experts / spec_.expert_groups;
    Tensor best = topk(view(corrected, {-1, spec_.expert_groups, size}), kBestOfGroup).first;
    held.push_back(sum(std::move(best), 4u, false));
    const Tensor closed = closed_experts(held.front(), held);
    corrected = masked_fill(corrected, closed);
  }
  out.chosen = topk(corrected, spec_.experts_per_token).second;
  out.weights = gather(scores, out.chosen);
  Tensor total;
  if (spec_.normalized) {
    total = add_scalar(sum(out.weights, 2u, true));
    out.weights = div_in_place_by(std::move(out.weights), total);
  }
  out.weights = mul_scalar(out.weights);
  drop(scores, corrected);
  for (Tensor& tensor : held) tensor.reset();
  return out;
}

}  // namespace headroom::tape

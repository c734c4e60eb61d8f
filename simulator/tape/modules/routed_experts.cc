#include "simulator/tape/modules/routed_experts.h"

#include <utility>
#include <vector>

#include "simulator/tape/modules/dispatched_experts.h"
#include "simulator/tape/modules/layers.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/experts.h"
#include "simulator/tape/operations/in_place.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/scan.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kPlaces = operation_name("expert_places"),
                    kRepeated = operation_name("aten::repeat_interleave"),
                    kCounts = operation_name("aten::histc"), kOffsets = operation_name("aten::cumsum");

}  // namespace

void RoutedExperts::build(Model& model, const DecoderForm& form, const Mlp& spec, const std::string& name,
                          int index) {
  spec_ = spec;
  clamped_gate_ = form.clamped_gate;
  transposed_ = spec.expert_bias;
  ranks_ = model.options().expert_ranks;
  const std::int64_t local = spec.experts / ranks_;
  const std::int64_t hidden = spec.latent > 0 ? spec.latent : model.decoder().hidden;
  const std::int64_t wide = (spec.plain_experts ? 1 : 2) * spec.hidden;
  const auto matrices = [&](std::int64_t out, std::int64_t in) {
    return transposed_ ? Shape{local, in, out} : Shape{local, out, in};
  };
  register_parameter(model, name + (spec.plain_experts ? ".up_proj" : ".gate_up_proj"), gate_up_,
                     matrices(wide, hidden), index);
  if (spec.expert_bias)
    register_parameter(model, name + ".gate_up_proj_bias", gate_up_bias_, {local, wide}, index);
  register_parameter(model, name + ".down_proj", down_, matrices(hidden, spec.hidden), index);
  if (spec.expert_bias)
    register_parameter(model, name + ".down_proj_bias", down_bias_, {local, hidden}, index);
  for (ParameterSlot& slot : model.parameters())
    for (const Tensor* own : {&gate_up_, &gate_up_bias_, &down_, &down_bias_})
      if (slot.tensor == own) slot.expert = true;
}

/// The halves of one product: act(gate) * up.
Tensor RoutedExperts::gated(const Tensor& both) const {
  if (spec_.plain_experts) return activation(spec_.activation, both);
  if (clamped_gate_) return gated_clamped(both);
  const std::vector<Tensor> halves = split(both, -1, spec_.hidden);
  Tensor act = activation(spec_.activation, halves[0]);
  return mul(std::move(act), halves[1]);
}

/// Even columns are gates, odd ones go up: (up + 1) * gate * sigmoid(a gate), both clamped first.
Tensor RoutedExperts::gated_clamped(const Tensor& both) const {
  Tensor gate = every(both, -1, 0, 2), up = every(both, -1, 1, 2);
  gate = clamp(gate);
  up = clamp(up);
  Tensor share = mul(gate, sigmoid(mul_scalar(gate)));
  Tensor out = mul(add_scalar(up), share);
  drop(gate, up, share);
  return out;
}

Tensor RoutedExperts::product(const Tensor& rows, const Tensor& weights) const {
  if (transposed_) return squeeze(matmul(unsqueeze(rows, 1), weights), 1);
  return squeeze(matmul(weights, unsqueeze(rows, -1)), -1);
}

Tensor RoutedExperts::operator()(const Tensor& rows, const Routing& routing, bool decoding) const {
  if (ranks_ > 1) return dispatched(rows, routing);
  return decoding ? batched(rows, routing) : grouped(rows, routing);
}

Tensor RoutedExperts::dispatched(const Tensor& rows, const Routing& routing) const {
  const DispatchedExperts experts{.ranks = ranks_,
                                  .chosen = spec_.experts_per_token,
                                  .transposed = transposed_,
                                  .gated = !spec_.plain_experts,
                                  .up = &gate_up_,
                                  .down = &down_,
                                  .up_bias = &gate_up_bias_,
                                  .down_bias = &down_bias_};
  return experts(rows, routing.weights);
}

Tensor RoutedExperts::batched(const Tensor& rows, const Routing& routing) const {
  const std::int64_t tokens = rows.size(0), hidden = rows.size(1), pairs = routing.chosen.elements();
  Tensor selected = rows.tape().empty({pairs, hidden}, rows.dtype(), kRepeated);
  const Tensor sample_weights = reshape(routing.weights, {-1});
  Tensor experts = plain(kPlaces, DType::int64, reshape(routing.chosen, {-1}));
  Tensor weights = index_rows(gate_up_, experts), bias;
  const bool biased = gate_up_bias_.defined();
  if (biased) bias = index_rows(gate_up_bias_, experts);
  Tensor out = product(selected, weights);
  if (biased) out = add_in_place_of(std::move(out), bias);
  out = gated(out);
  weights = index_rows(down_, experts);
  if (biased) bias = index_rows(down_bias_, experts);
  out = product(out, weights);
  if (biased) out = add_in_place_of(std::move(out), bias);
  Tensor weighted = mul(out, unsqueeze(sample_weights, -1));
  Tensor summed = sum(view(weighted, {tokens, -1, hidden}), 2u, false);
  Tensor result = to(summed, rows.dtype());
  drop(selected, experts, weights, bias, out, weighted, summed);
  return result;
}

Tensor RoutedExperts::grouped(const Tensor& rows, const Routing& routing) const {
  Tape& tape = rows.tape();
  const std::int64_t tokens = rows.size(0), hidden = rows.size(1);
  Tensor sample_weights = reshape(routing.weights, {-1});
  auto [sorted, order] = sort(reshape(routing.chosen, {-1}));
  Tensor selected = index_rows(rows, plain(kPlaces, DType::int64, order));
  Tensor sorted_weights = index_rows(sample_weights, order);
  Tensor narrow = plain(kCounts, DType::int32, sorted);
  Tensor counts = tape.empty({spec_.experts}, DType::int32, kCounts);
  Tensor offsets = tape.empty({spec_.experts}, DType::int32, kOffsets);
  { const Tensor scratch = single_row_scratch(counts); }
  // Pairs of experts that other ranks own would stand last; here there are none.
  Tensor beyond = unsqueeze(plain(kPlaces, DType::boolean, sorted), -1);
  Tensor bias;
  const bool biased = gate_up_bias_.defined();
  if (biased) bias = index_rows(gate_up_bias_, sorted);
  selected = masked_fill_in_place(std::move(selected), beyond);
  Tensor out = grouped_mm(selected, gate_up_, offsets, transposed_);
  if (biased) out = add_in_place_of(std::move(out), bias);
  out = masked_fill(out, beyond);
  out = gated(out);
  if (biased) bias = index_rows(down_bias_, sorted);
  out = grouped_mm(out, down_, offsets, transposed_);
  if (biased) out = add_in_place_of(std::move(out), bias);
  out = masked_fill(out, beyond);
  Tensor weighted = mul(out, unsqueeze(sorted_weights, -1));
  Tensor back = plain(kPlaces, DType::int64, order);
  { const Tensor range = plain(kPlaces, DType::int64, order); }
  weighted = index_rows(weighted, back);
  Tensor summed = sum(view(weighted, {tokens, -1, hidden}), 2u, false);
  Tensor result = to(summed, rows.dtype());
  drop(sample_weights, sorted, order, selected, sorted_weights, narrow, counts, offsets, beyond, out,
       weighted, back, summed);
  return result;
}

}  // namespace headroom::tape

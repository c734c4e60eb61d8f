#include "simulator/tape/modules/routed_experts.h"

#include <utility>
#include <vector>

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

void RoutedExperts::build(Model& model, const Mlp& spec, const std::string& name, int index) {
  spec_ = spec;
  const std::int64_t hidden = model.decoder().hidden;
  register_parameter(model, name + ".gate_up_proj", gate_up_, {spec.experts, 2 * spec.hidden, hidden}, index);
  register_parameter(model, name + ".down_proj", down_, {spec.experts, hidden, spec.hidden}, index);
}

/// The halves of one product: act(gate) * up.
Tensor RoutedExperts::gated(const Tensor& both) const {
  const std::vector<Tensor> halves = split(both, -1, spec_.hidden);
  Tensor act = activation(spec_.activation, halves[0]);
  return mul(std::move(act), halves[1]);
}

Tensor RoutedExperts::operator()(const Tensor& rows, const Routing& routing, bool decoding) const {
  return decoding ? batched(rows, routing) : grouped(rows, routing);
}

Tensor RoutedExperts::batched(const Tensor& rows, const Routing& routing) const {
  const std::int64_t tokens = rows.size(0), hidden = rows.size(1), pairs = routing.chosen.elements();
  Tensor selected = rows.tape().empty({pairs, hidden}, rows.dtype(), kRepeated);
  const Tensor sample_weights = reshape(routing.weights, {-1});
  Tensor experts = plain(kPlaces, DType::int64, reshape(routing.chosen, {-1}));
  Tensor weights = index_rows(gate_up_, experts);
  Tensor out = squeeze(matmul(weights, unsqueeze(selected, -1)), -1);
  out = gated(out);
  weights = index_rows(down_, experts);
  out = squeeze(matmul(weights, unsqueeze(out, -1)), -1);
  Tensor weighted = mul(out, unsqueeze(sample_weights, -1));
  Tensor summed = sum(view(weighted, {tokens, -1, hidden}), 2u, false);
  Tensor result = to(summed, rows.dtype());
  drop(selected, experts, weights, out, weighted, summed);
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
  selected = masked_fill_in_place(std::move(selected), beyond);
  Tensor out = grouped_mm(selected, gate_up_, offsets);
  out = masked_fill(out, beyond);
  out = gated(out);
  out = grouped_mm(out, down_, offsets);
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

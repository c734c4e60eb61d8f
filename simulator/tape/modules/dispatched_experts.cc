#include "simulator/tape/modules/dispatched_experts.h"

#include <cmath>
#include <utility>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/experts.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kDispatch = operation_name("deep_ep::dispatch"), kCombine = operation_name("deep_ep::combine"),
                    kMap = operation_name("deep_ep::routing_map"), kPermute = operation_name("te::permute"),
                    kUnpermute = operation_name("te::unpermute"), kActivation = operation_name("compiled::activation"),
                    kPlaces = operation_name("expert_places"), kOffsets = operation_name("aten::cumsum");

/// How rows are moved: over the network or on the device.
struct Move {
  OperationKind kind = OperationKind::copy;
  std::int64_t ranks = 1;
};

void run(Tape& tape, const Move& move, std::uint16_t name, const Tensor& from, const Tensor& to) {
  if (tape.wants_operations()) Work(tape, move.kind, name).in(from).out(to).sizes({move.ranks}).run();
}

/// Moves rows back on their way home.
class MovedRows : public Function {
 public:
  explicit MovedRows(Move move) : move_(move) {}
  void backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) override {
    out[0] = node.tape->empty(Shape::contiguous(node.shape.sizes()), in[0].dtype(), node.name);
    run(*node.tape, move_, node.name, in[0], out[0]);
  }

 private:
  Move move_;
};

/// `count` rows made of `from`'s; `map`: what says which, kept for the way back.
Tensor moved(Arg from, std::int64_t count, Move move, std::uint16_t name, const Tensor& map = {}) {
  Tape& tape = from->tape();
  Node* node = nullptr;
  if (tape.records(from)) {
    node = tape.node(name, nullptr, {&*from});
    node->shape = from->shape();
    node->function = std::make_unique<MovedRows>(move);
    if (map.defined()) tape.save(node, map);
  }
  Shape shape = from->shape();
  shape.size[0] = count;
  Tensor out = tape.empty(Shape::contiguous(shape.sizes()), from->dtype(), name);
  run(tape, move, name, *from, out);
  tape.attach(out, node);
  done(from);
  return out;
}

void activation_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor wide = node.unpack(0), shares = node.unpack(1);
  if (node.wants(0)) out[0] = node.tape->empty(wide.shape(), in[0].dtype(), node.name);
  if (node.wants(1)) out[1] = node.tape->empty(shares.shape(), shares.dtype(), node.name);
}

/// One compiled kernel of activation, gate and weight: keeps what it read.
Tensor weighted_activation(Arg wide, const Tensor& shares, bool gated) {
  Tape& tape = wide->tape();
  Node* node = nullptr;
  if (tape.grad_enabled() && (wide->requires_grad() || shares.requires_grad())) {
    node = tape.node(kActivation, activation_backward, {&*wide, &shares});
    tape.save(node, *wide);
    tape.save(node, shares);
  }
  Tensor out = tape.empty({wide->size(0), wide->size(1) / (gated ? 2 : 1)}, wide->dtype(), kActivation);
  run(tape, {}, kActivation, *wide, out);
  tape.attach(out, node);
  done(wide);
  return out;
}

}  // namespace

Tensor DispatchedExperts::operator()(const Tensor& rows, const Tensor& weights) const {
  Tape& tape = rows.tape();
  const std::int64_t local = up->size(0);
  // Of a token's choices so many fall on one rank.
  const double met = 1 - std::pow(1 - 1 / static_cast<double>(ranks), static_cast<double>(chosen));
  const auto arriving =
      std::llround(static_cast<double>(rows.size(0)) * static_cast<double>(ranks) * met);
  const std::int64_t pairs = rows.size(0) * chosen;
  const Move network{.kind = OperationKind::all_to_all, .ranks = ranks};

  Tensor arrived = moved(rows, arriving, network, kDispatch);
  Tensor probabilities = moved(reshape(weights, {-1}), arriving * local, network, kDispatch);
  Tensor map = tape.empty({arriving, 2 * local + 1}, DType::int32, kMap);
  Tensor slots = moved(std::move(arrived), pairs, {}, kPermute, map);
  Tensor shares = moved(std::move(probabilities), pairs, {}, kPermute);

  Tensor offsets = tape.empty({local}, DType::int32, kOffsets);
  Tensor places;
  if (up_bias->defined()) places = tape.empty({pairs}, DType::int64, kPlaces);
  Tensor out = grouped_mm(std::move(slots), *up, offsets, transposed);
  if (places.defined()) out = add(std::move(out), index_rows(*up_bias, places));
  out = weighted_activation(std::move(out), shares, gated);
  out = grouped_mm(std::move(out), *down, offsets, transposed);
  if (places.defined()) out = add(std::move(out), index_rows(*down_bias, places));
  drop(shares, offsets, places);
  out = moved(std::move(out), arriving, {}, kUnpermute, map);
  map.reset();
  return moved(std::move(out), rows.size(0), network, kCombine);
}

}  // namespace headroom::tape

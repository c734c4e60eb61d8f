#include "simulator/tape/modules/sequence_split.h"

#include "models/base/bytes.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kGather = operation_name("dtensor::all_gather"),
                    kScatter = operation_name("dtensor::reduce_scatter"),
                    kGatherBackward = operation_name("RedistributeBackward");

Shape with_tokens(const Shape& shape, std::int64_t tokens) {
  Shape out = Shape::contiguous(shape.sizes());
  out.size[1] = tokens;
  return Shape::contiguous(out.sizes());
}

/// The collectives work on the first dimension: parts are joined, or cut, along the tokens by a copy.
Tensor gathered(Tape& tape, const Tensor& part, const Shape& whole, std::int64_t ranks) {
  Tensor parts;
  {
    const ComponentScope component(tape, Component::communication);
    parts = tape.empty(whole, part.dtype(), kGather);
  }
  if (tape.wants_operations()) Work(tape, OperationKind::all_gather, kGather).in(part).out(parts).sizes({ranks}).run();
  return tape.empty(whole, part.dtype(), kGather);
}

Tensor scattered(Tape& tape, const Tensor& whole, const Shape& part, std::int64_t ranks) {
  Tensor parts;
  {
    const ComponentScope component(tape, Component::communication);
    parts = tape.empty(Shape::contiguous(whole.shape().sizes()), whole.dtype(), kScatter);
  }
  Tensor out = tape.empty(part, whole.dtype(), kScatter);
  if (tape.wants_operations())
    Work(tape, OperationKind::reduce_scatter, kScatter).in(parts).out(out).sizes({ranks}).run();
  return out;
}

void gather_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  out[0] = scattered(*node.tape, in[0], node.shape, node.numbers[0]);
}

void scatter_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  out[0] = gathered(*node.tape, in[0], node.shape, node.numbers[0]);
}

Node* node_of(Arg& self, void (*backward)(Node&, std::span<Tensor>, std::span<Tensor>), std::int64_t ranks) {
  Tape& tape = self->tape();
  if (!tape.records(self)) return nullptr;
  Node* node = tape.node(kGatherBackward, backward, {&*self});
  node->shape = Shape::contiguous(self->shape().sizes());
  node->numbers[0] = ranks;
  return node;
}

}  // namespace

Tensor gather_tokens(Arg self, std::int64_t ranks) {
  Tape& tape = self->tape();
  Node* node = node_of(self, gather_backward, ranks);
  Tensor out = gathered(tape, *self, with_tokens(self->shape(), self->size(1) * ranks), ranks);
  tape.attach(out, node);
  done(self);
  return out;
}

Tensor scatter_tokens(Arg self, std::int64_t ranks) {
  Tape& tape = self->tape();
  Node* node = node_of(self, scatter_backward, ranks);
  Tensor out = scattered(tape, *self, with_tokens(self->shape(), ceil_div(self->size(1), ranks)), ranks);
  tape.attach(out, node);
  done(self);
  return out;
}

}  // namespace headroom::tape

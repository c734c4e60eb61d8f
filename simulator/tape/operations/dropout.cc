#include "simulator/tape/operations/dropout.h"

#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kDropout = operation_name("aten::native_dropout"),
                    kDropoutBackward = operation_name("NativeDropoutBackward0");

void dropout_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor mask = node.unpack(0);
  out[0] = elementwise(node.name, in[0].dtype(), {&in[0], &mask});
}

}  // namespace

Tensor dropout(Arg self) {
  Tape& tape = self->tape();
  Node* node = tape.records(self) ? tape.node(kDropoutBackward, dropout_backward, {&*self}) : nullptr;
  Tensor mask = tape.empty(like(self->shape()), DType::boolean, kDropout);
  Tensor out = elementwise(kDropout, self->dtype(), {&*self});
  if (node != nullptr) tape.save(node, mask);
  tape.attach(out, node);
  mask.reset();
  done(self);
  return out;
}

}  // namespace headroom::tape

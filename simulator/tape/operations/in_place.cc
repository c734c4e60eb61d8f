#include "simulator/tape/operations/in_place.h"

#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kCopySlices = operation_name("CopySlices"),
                    kAsStrided = operation_name("AsStridedBackward0"), kDiv = operation_name("aten::div_");

/// Zeros of the whole base, the gradient copied into its part; handed on as a view.
void as_strided_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  Tape& tape = *node.tape;
  const Tensor whole = tape.empty(node.shape, in[0].dtype(), node.name);
  if (tape.wants_operations()) Work(tape, OperationKind::copy, node.name).in(in[0]).out(whole).run();
  out[0] = tape.alias(whole, node.shape);
}

/// The base's gradient anew, the in-place operator's own gradient in the view's part of it.
void copy_slices_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  Tape& tape = *node.tape;
  out[0] = tape.empty(node.shape, in[0].dtype(), node.name);
  const Tensor part = tape.empty({node.numbers[0]}, in[0].dtype(), node.name);
  const Tensor divided = tape.empty({node.numbers[0]}, in[0].dtype(), node.name);
  if (tape.wants_operations()) Work(tape, OperationKind::copy, node.name).in(in[0]).out(out[0]).run();
}

}  // namespace

Tensor div_in_place(Tensor view, const Tensor& base) {
  Tape& tape = base.tape();
  if (tape.wants_operations()) Work(tape, OperationKind::elementwise, kDiv).in(view).out(view).run();
  const Arg operand(base);
  if (!tape.records(operand)) return view;
  Node* changed_node = tape.node(kCopySlices, copy_slices_backward, {&base});
  changed_node->shape = Shape::contiguous(base.shape().sizes());
  changed_node->numbers[0] = view.elements();
  Tensor changed = tape.alias(base, base.shape());
  tape.attach(changed, changed_node);
  Node* view_node = tape.node(kAsStrided, as_strided_backward, {&changed});
  view_node->shape = Shape::contiguous(base.shape().sizes());
  Tensor out = tape.alias(view, view.shape());
  tape.attach(out, view_node);
  return out;
}

}  // namespace headroom::tape

#include "simulator/tape/operations/in_place.h"

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kCopySlices = operation_name("CopySlices"),
                    kAsStrided = operation_name("AsStridedBackward0"), kDiv = operation_name("aten::div_"),
                    kCopy = operation_name("aten::copy_"), kDivByBackward = operation_name("DivBackward0"),
                    kAddBackward = operation_name("AddBackward0"),
                    kMaskedFill = operation_name("aten::masked_fill_"),
                    kMaskedFillBackward = operation_name("MaskedFillBackward0");

/// The same memory under the node that changed it.
Tensor replaced(Tensor self, Node* node) {
  if (node == nullptr) return self;
  Tensor out = self.tape().alias(self, self.shape(), 0, self->view);
  self.tape().attach(out, node);
  return out;
}

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

void copy_part_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  Tape& tape = *node.tape;
  const Tensor whole = tape.empty(like(in[0].shape()), in[0].dtype(), node.name);
  if (tape.wants_operations()) Work(tape, OperationKind::copy, node.name).in(in[0]).out(whole).run();
  const Tensor part = tape.empty(node.shape, in[0].dtype(), node.name);
  if (node.wants(0)) {
    const Tensor zeros = tape.empty(node.shape, in[0].dtype(), node.name);
    out[0] = whole;
  }
  if (node.wants(1)) out[1] = part;
}

/// `source` copied into a part of `base`; `sizes` tell executors where.
Tensor copied(Tensor base, const Tensor& source, std::initializer_list<std::int64_t> sizes) {
  Tape& tape = base.tape();
  const Arg to(base), from(source);
  Node* node = nullptr;
  if (tape.records(to, from)) {
    node = tape.node(kCopySlices, copy_part_backward, {&base, &source});
    node->shape = Shape::contiguous(source.shape().sizes());
  }
  if (tape.wants_operations()) Work(tape, OperationKind::copy, kCopy).in(source).out(base).sizes(sizes).run();
  return replaced(std::move(base), node);
}

}  // namespace

Tensor copy_into_part(Tensor base, const Tensor& source) {
  return copied(std::move(base), source, {});
}

Tensor copy_rows_in_place(Tensor base, std::int64_t first, const Tensor& source) {
  return copied(std::move(base), source, {first, source.size(0)});
}

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

Tensor div_in_place_by(Tensor self, const Tensor& divisor) {
  Tape& tape = self.tape();
  Node* node = nullptr;
  const Arg dividend(self), by(divisor);
  if (tape.records(dividend, by)) {
    node = tape.node(kDivByBackward, div_backward, {&self, &divisor});
    tape.save(node, divisor);
    if (divisor.requires_grad()) {
      const GradMode no_grad(tape, false);
      tape.save(node, clone(self));
    } else {
      tape.save_nothing(node);
    }
  }
  if (tape.wants_operations())
    Work(tape, OperationKind::elementwise, kDiv).in(self).in(divisor).out(self).run();
  return replaced(std::move(self), node);
}

Tensor add_in_place_of(Tensor self, const Tensor& other) {
  Tape& tape = self.tape();
  const Arg left(self), right(other);
  Node* node = tape.records(left, right) ? tape.node(kAddBackward, add_backward, {&self, &other}) : nullptr;
  add_in_place(self, other);
  return replaced(std::move(self), node);
}

Tensor masked_fill_in_place(Tensor self, const Tensor& mask) {
  Tape& tape = self.tape();
  Node* node = nullptr;
  if (tape.records(Arg(self))) {
    node = tape.node(kMaskedFillBackward, masked_fill_backward, {&self});
    tape.save(node, mask);
  }
  if (tape.wants_operations())
    Work(tape, OperationKind::elementwise, kMaskedFill).in(self).in(mask).out(self).run();
  return replaced(std::move(self), node);
}

}  // namespace headroom::tape

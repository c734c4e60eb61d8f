#include "simulator/tape/operations/copy.h"

#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kTo = operation_name("aten::_to_copy"), kToBackward = operation_name("ToCopyBackward0");
const std::uint16_t kClone = operation_name("aten::clone"), kCloneBackward = operation_name("CloneBackward0");
const std::uint16_t kCat = operation_name("aten::cat"), kCatBackward = operation_name("CatBackward0");
const std::uint16_t kFill = operation_name("aten::fill_"), kCopy = operation_name("aten::copy_");

using Tensors = std::span<Tensor>;

Tensor copied(std::uint16_t name, const Tensor& self, const Shape& shape, DType dtype) {
  Tape& tape = self.tape();
  Tensor out = tape.empty(shape, dtype, name);
  if (tape.wants_operations()) Work(tape, OperationKind::copy, name).in(self).out(out).run();
  return out;
}

void to_backward(Node& node, Tensors in, Tensors out) {
  out[0] = to(in[0], static_cast<DType>(node.numbers[0]));
}

void clone_backward(Node&, Tensors in, Tensors out) {
  out[0] = in[0];
}

/// Views of the gradient, one an input; the engine casts them.
void cat_backward(Node& node, Tensors in, Tensors out) {
  const int dimension = static_cast<int>(node.numbers[0]);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!node.wants(i)) {
      start += node.cuts[i];
      continue;
    }
    out[i] = slice(in[0], dimension, start, node.cuts[i]);
    start += node.cuts[i];
  }
}

Tensor cat_of(Tape& tape, std::span<const Tensor* const> tensors, int dimension) {
  bool any = false;
  const Tensor* first = nullptr;
  std::int64_t total = 0;
  DType dtype = (*tensors.front()).dtype();
  for (const Tensor* tensor : tensors) {
    any = any || tensor->requires_grad();
    dtype = promote(dtype, tensor->dtype());
    if (tensor->rank() == 1 && tensor->size(0) == 0) continue;
    if (first == nullptr) first = tensor;
    total += tensor->size(dimension);
  }
  if (dimension < 0) dimension += first->rank();
  Node* node = nullptr;
  if (any && tape.grad_enabled()) {
    node = tape.node(kCatBackward, cat_backward, tensors);
    node->numbers[0] = dimension;
    for (const Tensor* tensor : tensors)
      node->cuts.push_back(tensor->rank() <= dimension ? 0 : tensor->size(dimension));
  }
  Shape shape = first->shape();
  shape.size[static_cast<std::size_t>(dimension)] = total;
  set_contiguous(shape);
  Tensor out = tape.empty(shape, dtype, kCat);
  if (tape.wants_operations()) {
    Work work(tape, OperationKind::copy, kCat);
    for (const Tensor* tensor : tensors) work.in(*tensor);
    work.out(out).run();
  }
  tape.attach(out, node);
  return out;
}

}  // namespace

Tensor to(Arg self, DType dtype) {
  if (self->dtype() == dtype) {
    Tensor same = *self;
    done(self);
    return same;
  }
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self)) {
    node = tape.node(kToBackward, to_backward, {&*self});
    node->numbers[0] = static_cast<std::int64_t>(self->dtype());
  }
  Tensor out = copied(kTo, *self, cast_result(self->shape()), dtype);
  tape.attach(out, node);
  done(self);
  return out;
}

Tensor contiguous(Arg self) {
  if (self->shape().is_contiguous()) {
    Tensor same = *self;
    done(self);
    return same;
  }
  Tape& tape = self->tape();
  Node* node = tape.records(self) ? tape.node(kCloneBackward, clone_backward, {&*self}) : nullptr;
  Tensor out = copied(kClone, *self, Shape::contiguous(self->shape().sizes()), self->dtype());
  tape.attach(out, node);
  done(self);
  return out;
}

Tensor clone(Arg self) {
  Tape& tape = self->tape();
  Node* node = tape.records(self) ? tape.node(kCloneBackward, clone_backward, {&*self}) : nullptr;
  Tensor out = copied(kClone, *self, like(self->shape()), self->dtype());
  tape.attach(out, node);
  done(self);
  return out;
}

Tensor clone_as(Arg self, const Shape& shape) {
  Tensor out = copied(kClone, *self, shape, self->dtype());
  done(self);
  return out;
}

Tensor cat(std::span<const Tensor> tensors, int dimension) {
  std::vector<const Tensor*> pointers;
  pointers.reserve(tensors.size());
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  return cat_of(tensors.front().tape(), pointers, dimension);
}

Tensor cat(Arg a, Arg b, int dimension) {
  const std::array<const Tensor*, 2> both = {&*a, &*b};
  Tensor out = cat_of(a->tape(), both, dimension);
  // A tuple lets its last item go first.
  done(b, a);
  return out;
}

namespace {

const std::uint16_t kTake = operation_name("take_rows"), kTakeBackward = operation_name("TakeRowsBackward");

void take_rows_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  Tape& tape = *node.tape;
  out[0] = tape.empty(node.shape, in[0].dtype(), node.name);
  if (tape.wants_operations()) Work(tape, OperationKind::copy, node.name).in(in[0]).out(out[0]).run();
}

}  // namespace

Tensor take_rows(const Tensor& self, std::int64_t rows) {
  Tape& tape = self.tape();
  Node* node = nullptr;
  if (tape.grad_enabled() && self.requires_grad()) {
    node = tape.node(kTakeBackward, take_rows_backward, {&self});
    node->shape = Shape::contiguous(self.shape().sizes());
  }
  Shape shape = Shape::contiguous(self.shape().sizes());
  shape.size[0] = rows;
  set_contiguous(shape);
  Tensor out = tape.empty(shape, self.dtype(), kTake);
  if (tape.wants_operations()) Work(tape, OperationKind::copy, kTake).in(self).out(out).run();
  tape.attach(out, node);
  return out;
}

void copy_in_place(const Tensor& self, const Tensor& other) {
  Tape& tape = self.tape();
  if (tape.wants_operations()) Work(tape, OperationKind::copy, kCopy).in(other).out(self).run();
}

Tensor fill(Tape& tape, const Shape& shape, DType dtype) {
  Tensor out = tape.empty(shape, dtype, kFill);
  if (tape.wants_operations()) Work(tape, OperationKind::elementwise, kFill).out(out).run();
  return out;
}

Tensor to_host(const Tensor& self, HostKind kind) {
  Tape& tape = self.tape();
  Tensor out = tape.empty_host(Shape::contiguous(self.shape().sizes()), self.dtype(), kind);
  if (tape.wants_operations()) Work(tape, OperationKind::device_to_host, kCopy).in(self).out(out).run();
  return out;
}

Tensor to_device(const Tensor& self) {
  Tape& tape = self.tape();
  Tensor out = tape.empty(Shape::contiguous(self.shape().sizes()), self.dtype(), kTo);
  if (tape.wants_operations()) Work(tape, OperationKind::host_to_device, kTo).in(self).out(out).run();
  return out;
}

}  // namespace headroom::tape

#include "simulator/tape/operations/views.h"

#include <algorithm>
#include <cassert>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kViewBackward = operation_name("ViewBackward0"),
                    kUnsafeViewBackward = operation_name("UnsafeViewBackward0");
const std::uint16_t kTransposeBackward = operation_name("TransposeBackward0"),
                    kTBackward = operation_name("TBackward0");
const std::uint16_t kUnsqueezeBackward = operation_name("UnsqueezeBackward0"),
                    kSqueezeBackward = operation_name("SqueezeBackward1");
const std::uint16_t kExpandBackward = operation_name("ExpandBackward0"),
                    kSliceBackward = operation_name("SliceBackward0"),
                    kSelectBackward = operation_name("SelectBackward0"),
                    kSplitBackward = operation_name("SplitBackward0"),
                    kAliasBackward = operation_name("AliasBackward0");

using Tensors = std::span<Tensor>;

void view_backward(Node& node, Tensors in, Tensors out) {
  out[0] = reshape(in[0], node.shape.sizes());
}

void transpose_backward(Node& node, Tensors in, Tensors out) {
  out[0] = transpose(in[0], static_cast<int>(node.numbers[0]), static_cast<int>(node.numbers[1]));
}

void unsqueeze_backward(Node& node, Tensors in, Tensors out) {
  out[0] = squeeze(in[0], static_cast<int>(node.numbers[0]));
}

void squeeze_backward(Node& node, Tensors in, Tensors out) {
  out[0] = unsqueeze(in[0], static_cast<int>(node.numbers[0]));
}

/// The engine sums it to the unexpanded size.
void pass_backward(Node&, Tensors in, Tensors out) {
  out[0] = in[0];
}

/// Zeros of the whole base, the gradient copied into its part.
void slice_backward(Node& node, Tensors in, Tensors out) {
  Tape& tape = *node.tape;
  out[0] = tape.empty(Shape::contiguous(node.shape.sizes()), in[0].dtype(), node.name);
  if (tape.wants_operations()) Work(tape, OperationKind::copy, node.name).in(in[0]).out(out[0]).run();
}

/// Parts without a gradient count as zeros, made for the join.
void split_backward(Node& node, Tensors in, Tensors out) {
  Tape& tape = *node.tape;
  std::vector<Tensor> zeros;
  const Tensor* defined = nullptr;
  for (const Tensor& gradient : in)
    if (gradient.defined()) defined = &gradient;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (!in[i].defined())
      zeros.push_back(
          tape.empty(Shape::contiguous(node.outputs[i].shape.sizes()), defined->dtype(), node.name));
  out[0] = tape.empty(Shape::contiguous(node.shape.sizes()), defined->dtype(), node.name);
  if (tape.wants_operations()) Work(tape, OperationKind::copy, node.name).in(*defined).out(out[0]).run();
  for (Tensor& zero : zeros) zero.reset();
}

Node* record(std::uint16_t name, Formula formula, const Arg& self, std::int64_t a = 0, std::int64_t b = 0) {
  Tape& tape = self->tape();
  if (!tape.records(self)) return nullptr;
  Node* node = tape.node(name, formula, {&*self});
  node->numbers[0] = a;
  node->numbers[1] = b;
  node->shape = self->shape();
  return node;
}

Tensor finish(Arg& self, const Shape& shape, Node* node, std::int64_t offset = 0, bool is_view = true) {
  Tape& tape = self->tape();
  Tensor out = tape.alias(*self, shape, offset, is_view);
  tape.attach(out, node);
  done(self);
  return out;
}

}  // namespace

Tensor view(Arg self, std::initializer_list<std::int64_t> sizes) {
  Shape shape;
  [[maybe_unused]] const bool possible = view_shape(self->shape(), {sizes.begin(), sizes.size()}, shape);
  assert(possible);
  return finish(self, shape, record(kViewBackward, view_backward, self));
}

Tensor unsafe_view(Arg self, std::span<const std::int64_t> sizes) {
  Shape shape;
  view_shape(self->shape(), sizes, shape);
  return finish(self, shape, record(kUnsafeViewBackward, view_backward, self), 0, false);
}

Tensor reshape(Arg self, std::initializer_list<std::int64_t> sizes) {
  return reshape(self, std::span<const std::int64_t>(sizes.begin(), sizes.size()));
}

Tensor reshape(Arg self, std::span<const std::int64_t> sizes) {
  Shape shape;
  if (view_shape(self->shape(), sizes, shape))
    return finish(self, shape, record(kViewBackward, view_backward, self));
  Tensor copy = contiguous(*self);
  Tensor out = unsafe_view(std::move(copy), sizes);
  done(self);
  return out;
}

Tensor transpose(Arg self, int a, int b) {
  const int rank = self->rank();
  if (a < 0) a += rank;
  if (b < 0) b += rank;
  return finish(self, transpose(self->shape(), a, b),
                record(kTransposeBackward, transpose_backward, self, a, b));
}

Tensor t(Arg self) {
  return finish(self, transpose(self->shape(), 0, 1), record(kTBackward, transpose_backward, self, 0, 1));
}

Tensor unsqueeze(Arg self, int dimension) {
  if (dimension < 0) dimension += self->rank() + 1;
  return finish(self, unsqueeze(self->shape(), dimension),
                record(kUnsqueezeBackward, unsqueeze_backward, self, dimension));
}

Tensor squeeze(Arg self, int dimension) {
  if (dimension < 0) dimension += self->rank();
  const bool goes = self->size(dimension) == 1;
  Node* node = goes ? record(kSqueezeBackward, squeeze_backward, self, dimension)
                    : record(kSqueezeBackward, pass_backward, self);
  return finish(self, squeeze(self->shape(), dimension), node);
}

Tensor expand(Arg self, std::initializer_list<std::int64_t> sizes) {
  return expand(self, std::span<const std::int64_t>(sizes.begin(), sizes.size()));
}

Tensor expand(Arg self, std::span<const std::int64_t> sizes) {
  return finish(self, expand(self->shape(), sizes), record(kExpandBackward, pass_backward, self));
}

Tensor slice(Arg self, int dimension, std::int64_t start, std::int64_t length) {
  if (dimension < 0) dimension += self->rank();
  const std::int64_t offset = start * self->shape().stride[static_cast<std::size_t>(dimension)];
  return finish(self, slice(self->shape(), dimension, length), record(kSliceBackward, slice_backward, self),
                offset);
}

Tensor select(Arg self, int dimension, std::int64_t index) {
  if (dimension < 0) dimension += self->rank();
  const std::int64_t offset = index * self->shape().stride[static_cast<std::size_t>(dimension)];
  return finish(self, select(self->shape(), dimension), record(kSelectBackward, slice_backward, self),
                offset);
}

Tensor every(Arg self, int dimension, std::int64_t start, std::int64_t step) {
  if (dimension < 0) dimension += self->rank();
  Shape shape = self->shape();
  auto& size = shape.size[static_cast<std::size_t>(dimension)];
  auto& stride = shape.stride[static_cast<std::size_t>(dimension)];
  const std::int64_t offset = start * stride;
  size = (size - start + step - 1) / step;
  stride *= step;
  return finish(self, shape, record(kSliceBackward, slice_backward, self), offset);
}

std::vector<Tensor> split(Arg self, int dimension, std::int64_t length) {
  std::vector<std::int64_t> lengths;
  const std::int64_t whole = self->size(dimension);
  for (std::int64_t start = 0; start < whole; start += length)
    lengths.push_back(std::min(length, whole - start));
  return split(self, dimension, lengths);
}

std::vector<Tensor> split(Arg self, int dimension, std::span<const std::int64_t> lengths) {
  Tape& tape = self->tape();
  if (dimension < 0) dimension += self->rank();
  Node* node = record(kSplitBackward, split_backward, self);
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (const std::int64_t length : lengths) {
    parts.push_back(tape.alias(*self, slice(self->shape(), dimension, length),
                               start * self->shape().stride[static_cast<std::size_t>(dimension)]));
    tape.attach(parts.back(), node, static_cast<std::uint16_t>(parts.size() - 1));
    start += length;
  }
  done(self);
  return parts;
}

Tensor alias(Arg self) {
  return finish(self, self->shape(), record(kAliasBackward, pass_backward, self));
}

Tensor detach(Arg self) {
  return finish(self, self->shape(), nullptr);
}

}  // namespace headroom::tape

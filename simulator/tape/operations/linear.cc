#include "simulator/tape/operations/linear.h"

#include <algorithm>
#include <array>
#include <span>

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kMm = operation_name("aten::mm"), kMmBackward = operation_name("MmBackward0");
const std::uint16_t kAddmm = operation_name("aten::addmm"), kAddmmBackward = operation_name("AddmmBackward0");
const std::uint16_t kZero3Backward = operation_name("LinearFunctionForZeroStage3Backward");
const std::uint16_t kBmm = operation_name("aten::bmm"), kBmmBackward = operation_name("BmmBackward0");

using Tensors = std::span<Tensor>;

bool column_major(const Shape& shape) {
  return shape.stride[0] == 1 && shape.stride[1] == shape.size[0];
}

/// One product kernel, without autograd.
Tensor product(std::uint16_t name, const Tensor& a, const Tensor& b, const Tensor* bias = nullptr) {
  Tape& tape = a.tape();
  const int rank = a.rank();
  Shape shape = rank == 3 ? Shape{a.size(0), a.size(1), b.size(2)} : Shape{a.size(0), b.size(1)};
  Tensor out = tape.empty(shape, a.dtype(), name);
  // The fused bias needs more than one row and column of weights.
  tape.matmul_workspace(bias != nullptr && b.size(0) > 1 && b.size(1) > 1);
  if (tape.wants_operations()) {
    const std::int64_t batch = rank == 3 ? a.size(0) : 1, m = a.size(-2), k = a.size(-1), n = b.size(-1);
    Work work(tape, OperationKind::matmul, name);
    work.in(a).in(b);
    if (bias != nullptr) work.in(*bias);
    work.out(out)
        .sizes({m, n, k, batch})
        .flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k * batch))
        .run();
  }
  return out;
}

/// Gradient of the left operand of a product whose right operand is `b`.
Tensor left_gradient(const Node& node, const Tensor& gradient, const Tensor& b, const Shape& left) {
  if (column_major(left)) {
    const Tensor turned = t(gradient);
    return t(product(node.name, b, turned));
  }
  const Tensor turned = t(b);
  return product(node.name, gradient, turned);
}

Tensor right_gradient(const Node& node, const Tensor& gradient, const Tensor& a, bool right_column_major) {
  if (right_column_major) {
    const Tensor turned = t(gradient);
    return t(product(node.name, turned, a));
  }
  const Tensor turned = t(a);
  return product(node.name, turned, gradient);
}

void mm_backward(Node& node, Tensors in, Tensors out) {
  const Tensor b = node.unpack(0), a = node.unpack(1);
  if (node.wants(1)) out[1] = right_gradient(node, in[0], a, node.numbers[0] != 0);
  if (node.wants(0)) out[0] = left_gradient(node, in[0], b, node.shape);
}

void addmm_backward(Node& node, Tensors in, Tensors out) {
  const Tensor a = node.unpack(0), b = node.unpack(1);
  if (node.wants(1)) out[1] = left_gradient(node, in[0], b, node.shape);
  if (node.wants(2)) out[2] = right_gradient(node, in[0], a, node.numbers[0] != 0);
  if (node.wants(0)) out[0] = in[0];
}

void bmm_backward(Node& node, Tensors in, Tensors out) {
  const Tensor b = node.unpack(0), a = node.unpack(1);
  if (node.wants(1)) {
    const Tensor turned = transpose(a, 1, 2);
    out[1] = product(node.name, turned, in[0]);
  }
  if (node.wants(0)) {
    const Tensor turned = transpose(b, 1, 2);
    out[0] = product(node.name, in[0], turned);
  }
}

}  // namespace

Tensor mm(Arg a, Arg b) {
  Tape& tape = a->tape();
  Node* node = nullptr;
  if (tape.records(a, b)) {
    node = tape.node(kMmBackward, mm_backward, {&*a, &*b});
    node->shape = a->shape();
    node->numbers[0] = column_major(b->shape()) ? 1 : 0;
    a->requires_grad() ? tape.save(node, *b) : tape.save_nothing(node);
    b->requires_grad() ? tape.save(node, *a) : tape.save_nothing(node);
  }
  Tensor out = product(kMm, *a, *b);
  tape.attach(out, node);
  done(a, b);
  return out;
}

Tensor addmm(Arg bias, Arg a, Arg b) {
  Tape& tape = a->tape();
  Node* node = nullptr;
  if (tape.records(bias, a, b)) {
    node = tape.node(kAddmmBackward, addmm_backward, {&*bias, &*a, &*b});
    node->shape = a->shape();
    node->numbers[0] = column_major(b->shape()) ? 1 : 0;
    b->requires_grad() ? tape.save(node, *a) : tape.save_nothing(node);
    a->requires_grad() ? tape.save(node, *b) : tape.save_nothing(node);
  }
  Tensor out = product(kAddmm, *a, *b, &*bias);
  tape.attach(out, node);
  done(bias, a, b);
  return out;
}

Tensor bmm(Arg a, Arg b) {
  Tape& tape = a->tape();
  Node* node = nullptr;
  if (tape.records(a, b)) {
    node = tape.node(kBmmBackward, bmm_backward, {&*a, &*b});
    a->requires_grad() ? tape.save(node, *b) : tape.save_nothing(node);
    b->requires_grad() ? tape.save(node, *a) : tape.save_nothing(node);
  }
  Tensor out = product(kBmm, *a, *b);
  tape.attach(out, node);
  done(a, b);
  return out;
}

namespace {

/// All three gradients stand until the function returns.
void zero3_linear_backward(Node& node, Tensors in, Tensors out) {
  const Tensor input = node.unpack(0), weight = node.unpack(1);
  const Tensor rows = reshape(in[0], {-1, in[0].size(-1)});
  if (node.wants(0)) {
    out[0] = unsafe_view(product(node.name, rows, weight), node.shape.sizes());
  }
  if (node.wants(1)) {
    const Tensor turned = t(rows), flat = reshape(input, {-1, input.size(-1)});
    out[1] = product(node.name, turned, flat);
  }
  if (node.wants(2)) out[2] = sum(rows, 1u, false);
}

}  // namespace

Tensor zero3_linear(Arg input, const Tensor& weight, const Tensor& bias) {
  Tape& tape = input->tape();
  Node* node = nullptr;
  const Arg kept_weight(weight), kept_bias(bias);
  if (tape.records(input, kept_weight, kept_bias)) {
    node = tape.node(kZero3Backward, zero3_linear_backward, {&*input, &weight, &bias});
    node->shape = input->shape();
    tape.save(node, *input);
    tape.save(node, weight);
    bias.defined() ? tape.save(node, bias) : tape.save_nothing(node);
  }
  Tensor out;
  {
    const GradMode no_grad(tape, false);
    const Tensor w = autocast_cast(weight, tape), x = autocast_cast(*input, tape);
    std::array<std::int64_t, kMaxRank> sizes = x.shape().size;
    const auto rank = static_cast<std::size_t>(x.rank());
    sizes[rank - 1] = w.size(0);
    const Tensor turned = t(w);
    if (rank == 2 && bias.defined()) {
      const Tensor b = autocast_cast(bias, tape);
      out = product(kAddmm, x, turned, &b);
    } else {
      const Tensor flat = reshape(x, {-1, x.size(-1)});
      out = unsafe_view(product(kMm, flat, turned), {sizes.data(), rank});
      if (bias.defined() && tape.wants_operations()) add_in_place(out, bias);
    }
  }
  tape.attach(out, node);
  done(input);
  return out;
}

Tensor linear(Arg input, const Tensor& weight, const Tensor& bias) {
  Tape& tape = input->tape();
  if (tape.zero3_linears()) return zero3_linear(input.pass(), weight, bias);
  Tensor b = bias.defined() ? autocast_cast(bias, tape) : Tensor();
  Tensor w = autocast_cast(weight, tape);
  Tensor x = autocast_cast(*input, tape);
  std::array<std::int64_t, kMaxRank> sizes = x.shape().size;
  const int rank = x.rank();
  sizes[static_cast<std::size_t>(rank - 1)] = w.size(0);
  const std::span<const std::int64_t> out_sizes(sizes.data(), static_cast<std::size_t>(rank));
  Tensor out;
  if (!tape.grad_enabled() && !tape.wants_operations() && x.shape().is_contiguous()) {
    // Nobody looks at the views in between.
    out = tape.empty(Shape::contiguous(out_sizes), x.dtype(), b.defined() ? kAddmm : kMm);
    tape.matmul_workspace(b.defined() && w.size(0) > 1 && w.size(1) > 1);
  } else if (rank == 2) {
    Tensor turned = t(w);
    out = b.defined() ? addmm(b, x, std::move(turned)) : mm(x, std::move(turned));
  } else if (b.defined()) {
    Tensor flat = reshape(x, {-1, x.size(-1)});
    Tensor turned = t(w);
    Tensor rows = addmm(b, flat, turned);
    out = reshape(rows, out_sizes);
    drop(rows, turned, flat);
  } else {
    Tensor turned = t(w);
    Tensor flat = reshape(x, {-1, x.size(-1)});
    Tensor rows = mm(flat, turned);
    out = unsafe_view(rows, out_sizes);
    drop(rows, flat, turned);
  }
  drop(x, w, b);
  done(input);
  return out;
}

Tensor linear_by_product(Arg input, const Tensor& weight, const Tensor& bias) {
  Tape& tape = input->tape();
  Tensor turned = t(weight);
  Tensor w = autocast_cast(turned, tape);
  Tensor x = autocast_cast(*input, tape);
  std::array<std::int64_t, kMaxRank> sizes = x.shape().size;
  const auto rank = static_cast<std::size_t>(x.rank());
  sizes[rank - 1] = w.size(1);
  Tensor flat = reshape(x, {-1, x.size(-1)});
  Tensor rows = mm(flat, w);
  Tensor out = unsafe_view(rows, {sizes.data(), rank});
  drop(rows, flat, x, w, turned);
  if (bias.defined()) out = add(out, bias);
  done(input);
  return out;
}

namespace {

/// The operand of a batch product, [batch,M,N]: expanded to the batch that both share, flattened.
Tensor batched(const Tensor& operand, const Tensor& other) {
  const int rank = operand.rank();
  std::array<std::int64_t, kMaxRank> sizes = operand.shape().size;
  for (std::size_t i = 0; i + 2 < static_cast<std::size_t>(rank); ++i)
    sizes[i] = std::max(sizes[i], other.shape().size[i]);
  const std::span<const std::int64_t> whole(sizes.data(), static_cast<std::size_t>(rank));
  Tensor wide = expand(operand, whole);
  return reshape(std::move(wide), {-1, operand.size(-2), operand.size(-1)});
}

}  // namespace

Tensor matmul(Arg a, Arg b) {
  Tape& tape = a->tape();
  Tensor y = autocast_cast(*b, tape);
  Tensor x = autocast_cast(*a, tape);
  if (x.rank() == 3) {
    Tensor out = bmm(x, y);
    drop(x, y);
    done(a, b);
    return out;
  }
  std::array<std::int64_t, kMaxRank> sizes{};
  const int rank = x.rank();
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i)
    sizes[i] = std::max(x.shape().size[i], y.shape().size[i]);
  sizes[static_cast<std::size_t>(rank - 2)] = x.size(-2);
  sizes[static_cast<std::size_t>(rank - 1)] = y.size(-1);
  Tensor left = batched(x, y);
  Tensor right = batched(y, x);
  Tensor joined = bmm(left, right);
  Tensor out = unsafe_view(joined, {sizes.data(), static_cast<std::size_t>(rank)});
  drop(joined, right, left, x, y);
  done(a, b);
  return out;
}

}  // namespace headroom::tape

#include "simulator/tape/operations/experts.h"

#include <algorithm>
#include <bit>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/radix_sort.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kIndex = operation_name("aten::index"), kIndexBackward = operation_name("IndexBackward0"),
                    kTopk = operation_name("aten::topk"), kTopkBackward = operation_name("TopkBackward0"),
                    kSort = operation_name("aten::sort"), kGrouped = operation_name("aten::_grouped_mm"),
                    kGroupedBackward = operation_name("GroupedMmBackward0");

/// Longer ones go through CUB.
constexpr std::int64_t kSortedInPlace = 4096;

void index_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  Tape& tape = *node.tape;
  const Tensor index = node.unpack(0);
  const Shape whole = Shape::contiguous(node.shape.sizes());
  out[0] = tape.empty(whole, in[0].dtype(), node.name);
  const ComponentScope component(tape, Component::temporaries);
  const auto integers = [&] { return tape.empty(index.shape(), DType::int64, node.name); };
  // Indices brought into range, then counted in elements, then sorted with their places.
  Tensor wrapped = integers();
  const Tensor linear = integers();
  wrapped.reset();
  const Tensor values = contiguous(in[0]);
  const Tensor sorted = integers(), places = integers();
  {
    const Tensor range = integers();
    const auto last = static_cast<std::uint64_t>(whole[static_cast<int>(node.numbers[0])] - 1);
    const int bits = std::max(1, static_cast<int>(std::bit_width(last)));
    const Tensor scratch = tape.empty({radix_sort_scratch(index.elements(), bits)}, DType::uint8, node.name);
  }
  if (tape.wants_operations()) Work(tape, OperationKind::gather, node.name).in(in[0]).out(out[0]).run();
}

void topk_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor indices = node.unpack(0);
  out[0] = node.tape->empty(Shape::contiguous(node.shape.sizes()), in[0].dtype(), node.name);
}

/// Of the kernel that runs all groups in bf16; other dtypes run one product after the other.
class GroupedScratch {
 public:
  GroupedScratch(Tape& tape, DType dtype, std::int64_t groups, std::uint16_t name) {
    if (dtype != DType::bf16) return;
    const ComponentScope component(tape, Component::temporaries);
    sizes_ = tape.empty({groups * kGroup}, DType::uint8, name);
    descriptors_ = tape.empty({tape.traits().multiprocessors * kDescriptors}, DType::uint8, name);
  }
  ~GroupedScratch() { drop(descriptors_, sizes_); }

 private:
  /// A problem's three sizes, three pointers and three strides; four tensor maps.
  static constexpr std::int64_t kGroup = 3 * 4 + 3 * 8 + 3 * 8, kDescriptors = 4 * 128;
  Tensor sizes_, descriptors_;
};

void grouped_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor weight = node.unpack(0), offsets = node.unpack(1), rows = node.unpack(2);
  Tape& tape = *node.tape;
  const auto flops = 2.0 * static_cast<double>(in[0].elements()) * static_cast<double>(node.shape[1]);
  const auto product = [&](const Shape& shape, const Tensor& other) {
    Tensor result = tape.empty(shape, in[0].dtype(), node.name);
    const GroupedScratch scratch(tape, in[0].dtype(), node.numbers[0], node.name);
    if (tape.wants_operations())
      Work(tape, OperationKind::matmul, node.name).in(in[0]).in(other).out(result).flops(flops).run();
    return result;
  };
  if (node.wants(1)) out[1] = product(Shape{node.numbers[0], node.numbers[1], node.numbers[2]}, rows);
  if (node.wants(0)) out[0] = product(Shape{node.shape[0], node.shape[1]}, weight);
}

}  // namespace

namespace {

Tensor indexed(Arg& self, const Tensor& index, int dimension) {
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self)) {
    node = tape.node(kIndexBackward, index_backward, {&*self});
    node->shape = self->shape();
    node->numbers[0] = dimension;
    tape.save(node, index);
  }
  Shape shape = self->shape();
  shape.size[static_cast<std::size_t>(dimension)] = index.size(0);
  set_contiguous(shape);
  Tensor out = tape.empty(shape, self->dtype(), kIndex);
  if (tape.wants_operations()) Work(tape, OperationKind::gather, kIndex).in(*self).in(index).out(out).run();
  tape.attach(out, node);
  return out;
}

}  // namespace

Tensor index_rows(Arg self, Arg index) {
  Tensor out = indexed(self, *index, 0);
  done(self, index);
  return out;
}

Tensor index_one(Arg self, int dimension) {
  const Tensor index = self->tape().empty({1}, DType::int64, kIndex);
  Tensor out = indexed(self, index, dimension < 0 ? dimension + self->rank() : dimension);
  done(self);
  return out;
}

std::pair<Tensor, Tensor> topk(Arg self, std::int64_t k) {
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self)) {
    node = tape.node(kTopkBackward, topk_backward, {&*self});
    node->shape = self->shape();
  }
  Shape shape = self->shape();
  shape.size[static_cast<std::size_t>(shape.rank - 1)] = k;
  set_contiguous(shape);
  Tensor values = tape.empty(shape, self->dtype(), kTopk);
  Tensor indices = tape.empty(shape, DType::int64, kTopk);
  if (tape.wants_operations())
    Work(tape, OperationKind::reduce, kTopk).in(*self).out(values).out(indices).run();
  if (node != nullptr) tape.save(node, indices);
  tape.attach(values, node);
  done(self);
  return {std::move(values), std::move(indices)};
}

std::pair<Tensor, Tensor> sort(Arg self) {
  Tape& tape = self->tape();
  const std::int64_t n = self->elements();
  Tensor values = tape.empty(self->shape(), DType::int64, kSort);
  Tensor places = tape.empty(self->shape(), DType::int64, kSort);
  {
    const ComponentScope component(tape, Component::temporaries);
    const Tensor range = tape.empty(self->shape(), DType::int64, kSort);
    Tensor scratch;
    if (n > kSortedInPlace) scratch = tape.empty({radix_sort_scratch(n)}, DType::uint8, kSort);
    if (tape.wants_operations())
      Work(tape, OperationKind::reduce, kSort).in(*self).out(values).out(places).run();
  }
  done(self);
  return {std::move(values), std::move(places)};
}

Tensor grouped_mm(Arg rows, const Tensor& weight, const Tensor& offsets, bool transposed) {
  Tape& tape = rows->tape();
  Tensor x = to(*rows, weight.dtype());
  const std::int64_t columns = weight.size(transposed ? 2 : 1);
  Node* node = nullptr;
  if (tape.grad_enabled() && (x.requires_grad() || weight.requires_grad())) {
    node = tape.node(kGroupedBackward, grouped_backward, {&x, &weight});
    node->shape = x.shape();
    for (std::size_t i = 0; i < 3; ++i) node->numbers[i] = weight.size(static_cast<int>(i));
    x.requires_grad() ? tape.save(node, weight) : tape.save_nothing(node);
    tape.save(node, offsets);
    weight.requires_grad() ? tape.save(node, x) : tape.save_nothing(node);
  }
  Tensor out = tape.empty(Shape{x.size(0), columns}, x.dtype(), kGrouped);
  if (x.dtype() != DType::bf16) tape.matmul_workspace(false);
  { const GroupedScratch scratch(tape, x.dtype(), weight.size(0), kGrouped); }
  if (tape.wants_operations())
    Work(tape, OperationKind::matmul, kGrouped)
        .in(x)
        .in(weight)
        .out(out)
        .sizes({x.size(0), columns, x.size(1), 1})
        .flops(2.0 * static_cast<double>(out.elements()) * static_cast<double>(x.size(1)))
        .run();
  tape.attach(out, node);
  x.reset();
  done(rows);
  return out;
}

}  // namespace headroom::tape

#include "simulator/tape/operations/experts.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kIndex = operation_name("aten::index"), kIndexBackward = operation_name("IndexBackward0"),
                    kTopk = operation_name("aten::topk"), kTopkBackward = operation_name("TopkBackward0"),
                    kSort = operation_name("aten::sort"), kGrouped = operation_name("aten::_grouped_mm"),
                    kGroupedBackward = operation_name("GroupedMmBackward0");

void index_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  Tape& tape = *node.tape;
  const Tensor index = node.unpack(0);
  out[0] = tape.empty(Shape::contiguous(node.shape.sizes()), in[0].dtype(), node.name);
  const ComponentScope component(tape, Component::temporaries);
  // Linear indices, then both of them sorted with their places.
  const Tensor linear = tape.empty(index.shape(), DType::int64, node.name);
  const Tensor sorted = tape.empty(index.shape(), DType::int64, node.name);
  const Tensor places = tape.empty(index.shape(), DType::int64, node.name);
  if (tape.wants_operations()) Work(tape, OperationKind::gather, node.name).in(in[0]).out(out[0]).run();
}

void topk_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor indices = node.unpack(0);
  out[0] = node.tape->empty(Shape::contiguous(node.shape.sizes()), in[0].dtype(), node.name);
}

void grouped_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor rows = node.unpack(0), weight = node.unpack(1), offsets = node.unpack(2);
  Tape& tape = *node.tape;
  const auto flops = 2.0 * static_cast<double>(in[0].elements()) * static_cast<double>(node.shape[1]);
  const auto product = [&](const Shape& shape, const Tensor& other) {
    Tensor result = tape.empty(shape, in[0].dtype(), node.name);
    if (tape.wants_operations())
      Work(tape, OperationKind::matmul, node.name).in(in[0]).in(other).out(result).flops(flops).run();
    return result;
  };
  if (node.wants(1)) out[1] = product(Shape{node.numbers[0], node.numbers[1], node.shape[1]}, rows);
  if (node.wants(0)) out[0] = product(Shape{node.shape[0], node.shape[1]}, weight);
}

}  // namespace

Tensor index_rows(Arg self, Arg index) {
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self)) {
    node = tape.node(kIndexBackward, index_backward, {&*self});
    node->shape = self->shape();
    tape.save(node, *index);
  }
  Shape shape = self->shape();
  shape.size[0] = index->size(0);
  set_contiguous(shape);
  Tensor out = tape.empty(shape, self->dtype(), kIndex);
  if (tape.wants_operations()) Work(tape, OperationKind::gather, kIndex).in(*self).in(*index).out(out).run();
  tape.attach(out, node);
  done(self, index);
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
  Tensor values = tape.empty(self->shape(), DType::int64, kSort);
  Tensor places = tape.empty(self->shape(), DType::int64, kSort);
  {
    const ComponentScope component(tape, Component::temporaries);
    const Tensor range = tape.empty(self->shape(), DType::int64, kSort);
    const Tensor scratch = tape.empty({2 * self->elements()}, DType::int64, kSort);
    if (tape.wants_operations())
      Work(tape, OperationKind::reduce, kSort).in(*self).out(values).out(places).run();
  }
  done(self);
  return {std::move(values), std::move(places)};
}

Tensor grouped_mm(Arg rows, const Tensor& weight, const Tensor& offsets) {
  Tape& tape = rows->tape();
  Tensor w = autocast_cast(weight, tape);
  Tensor x = autocast_cast(*rows, tape);
  Node* node = nullptr;
  if (tape.grad_enabled() && (x.requires_grad() || w.requires_grad())) {
    node = tape.node(kGroupedBackward, grouped_backward, {&x, &w});
    node->shape = x.shape();
    node->numbers[0] = w.size(0);
    node->numbers[1] = w.size(1);
    w.requires_grad() ? tape.save(node, x) : tape.save_nothing(node);
    x.requires_grad() ? tape.save(node, w) : tape.save_nothing(node);
    tape.save(node, offsets);
  }
  Tensor out = tape.empty(Shape{x.size(0), w.size(1)}, x.dtype(), kGrouped);
  if (tape.wants_operations())
    Work(tape, OperationKind::matmul, kGrouped)
        .in(x)
        .in(w)
        .out(out)
        .sizes({x.size(0), w.size(1), x.size(1), 1})
        .flops(2.0 * static_cast<double>(out.elements()) * static_cast<double>(x.size(1)))
        .run();
  tape.attach(out, node);
  drop(x, w);
  done(rows);
  return out;
}

}  // namespace headroom::tape

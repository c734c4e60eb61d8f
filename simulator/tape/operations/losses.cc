#include "simulator/tape/operations/losses.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kLogSoftmax = operation_name("aten::_log_softmax"),
                    kLogSoftmaxBackward = operation_name("LogSoftmaxBackward0");
const std::uint16_t kSoftmax = operation_name("aten::_softmax"),
                    kSoftmaxBackward = operation_name("SoftmaxBackward0");
const std::uint16_t kGather = operation_name("aten::gather"),
                    kGatherBackward = operation_name("GatherBackward0");
const std::uint16_t kNll = operation_name("aten::nll_loss_forward"),
                    kNllBackward = operation_name("NllLossBackward0");
const std::uint16_t kLogsumexp = operation_name("aten::logsumexp"),
                    kLogsumexpBackward = operation_name("LogsumexpBackward0");
const std::uint16_t kMse = operation_name("aten::mse_loss"),
                    kMseBackward = operation_name("MseLossBackward0");

using Tensors = std::span<Tensor>;

void log_softmax_backward(Node& node, Tensors in, Tensors out) {
  const Tensor result = node.unpack(0);
  Tape& tape = *node.tape;
  out[0] =
      tape.empty(Shape::contiguous(result.shape().sizes()), static_cast<DType>(node.numbers[0]), node.name);
  if (tape.wants_operations())
    Work(tape, OperationKind::softmax, node.name).in(in[0]).in(result).out(out[0]).run();
}

/// gradient * result, then the row sums taken out.
void softmax_backward(Node& node, Tensors in, Tensors out) {
  const Tensor result = node.unpack(0);
  Tape& tape = *node.tape;
  out[0] =
      tape.empty(Shape::contiguous(result.shape().sizes()), static_cast<DType>(node.numbers[0]), node.name);
  const Tensor product = tape.empty(Shape::contiguous(result.shape().sizes()), result.dtype(), node.name);
  if (tape.wants_operations())
    Work(tape, OperationKind::softmax, node.name).in(in[0]).in(result).out(out[0]).run();
}

Tensor softmax_kernel(std::uint16_t name, std::uint16_t backward, Formula formula, Arg self, DType dtype) {
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self)) {
    node = tape.node(backward, formula, {&*self});
    node->numbers[0] = static_cast<std::int64_t>(self->dtype());
  }
  Tensor out = tape.empty(Shape::contiguous(self->shape().sizes()), dtype, name);
  Tensor copy;
  if (!self->shape().is_contiguous())
    copy = tape.empty(Shape::contiguous(self->shape().sizes()), self->dtype(), name);
  if (tape.wants_operations())
    Work(tape, OperationKind::softmax, name)
        .in(*self)
        .out(out)
        .sizes({out.elements() / out.size(-1), out.size(-1)})
        .run();
  copy.reset();
  if (node != nullptr) tape.save(node, out);
  tape.attach(out, node);
  done(self);
  return out;
}

void gather_backward(Node& node, Tensors in, Tensors out) {
  const Tensor index = node.unpack(0), self = node.unpack(1);
  Tape& tape = *node.tape;
  out[0] = tape.empty(Shape::contiguous(self.shape().sizes()), in[0].dtype(), node.name);
  if (tape.wants_operations())
    Work(tape, OperationKind::gather, node.name).in(in[0]).in(index).out(out[0]).run();
}

void nll_backward(Node& node, Tensors in, Tensors out) {
  const Tensor self = node.unpack(0), target = node.unpack(1), total_weight = node.unpack(2);
  Tape& tape = *node.tape;
  out[0] = tape.empty(Shape::contiguous(self.shape().sizes()), self.dtype(), node.name);
  if (tape.wants_operations())
    Work(tape, OperationKind::cross_entropy, node.name).in(in[0]).in(target).out(out[0]).run();
}

void logsumexp_backward(Node& node, Tensors in, Tensors out) {
  Tensor self = node.unpack(0), result = node.unpack(1);
  const Tensor gradient = unsqueeze(in[0], -1);
  const Tensor rows = unsqueeze(result, -1);
  const Tensor difference = sub(self, rows);
  const Tensor weights = exp(difference);
  out[0] = mul(gradient, weights);
}

void mse_backward(Node& node, Tensors in, Tensors out) {
  const Tensor self = node.unpack(0), target = node.unpack(1);
  if (node.wants(0)) out[0] = elementwise(node.name, self.dtype(), {&self, &target, &in[0]});
  if (node.wants(1)) out[1] = elementwise(node.name, target.dtype(), {&target, &self, &in[0]});
}

}  // namespace

Tensor log_softmax(Arg self) {
  Tape& tape = self->tape();
  if (tape.autocast().enabled && self->dtype() == DType::fp16) {  // one kernel widens as it reads
    Tensor out = softmax_kernel(kLogSoftmax, kLogSoftmaxBackward, log_softmax_backward, *self, DType::fp32);
    done(self);
    return out;
  }
  Tensor x = autocast_fp32(*self, tape);
  Tensor out = softmax_kernel(kLogSoftmax, kLogSoftmaxBackward, log_softmax_backward, x, x.dtype());
  x.reset();
  done(self);
  return out;
}

Tensor softmax(Arg self, DType dtype) {
  Tape& tape = self->tape();
  if (self->dtype() == DType::fp16 && dtype == DType::fp32) {
    Tensor out = softmax_kernel(kSoftmax, kSoftmaxBackward, softmax_backward, *self, dtype);
    done(self);
    return out;
  }
  Tensor x = autocast_fp32(*self, tape);
  x = to(std::move(x), dtype);
  Tensor out = softmax_kernel(kSoftmax, kSoftmaxBackward, softmax_backward, x, dtype);
  x.reset();
  done(self);
  return out;
}

Tensor gather(Arg self, Arg index) {
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self)) {
    node = tape.node(kGatherBackward, gather_backward, {&*self});
    tape.save(node, *index);
    tape.save(node, *self);
  }
  Tensor out = tape.empty(Shape::contiguous(index->shape().sizes()), self->dtype(), kGather);
  if (tape.wants_operations()) Work(tape, OperationKind::gather, kGather).in(*self).in(*index).out(out).run();
  tape.attach(out, node);
  done(self, index);
  return out;
}

Tensor nll_loss(Arg self, Arg target) {
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self)) {
    node = tape.node(kNllBackward, nll_backward, {&*self});
    tape.save(node, *self);
    tape.save(node, *target);
  }
  Tensor out = tape.empty({self->size(0)}, self->dtype(), kNll);
  Tensor total_weight = tape.empty({}, self->dtype(), kNll);
  if (tape.wants_operations())
    Work(tape, OperationKind::cross_entropy, kNll).in(*self).in(*target).out(out).run();
  if (node != nullptr) tape.save(node, total_weight);
  tape.attach(out, node);
  total_weight.reset();
  done(self, target);
  return out;
}

Tensor logsumexp(Arg given) {
  Tape& tape = given->tape();
  Tensor self = autocast_fp32(*given, tape);
  Node* node = nullptr;
  if (tape.grad_enabled() && self.requires_grad()) {
    node = tape.node(kLogsumexpBackward, logsumexp_backward, {&self});
    tape.save(node, self);
  }
  const GradMode no_grad(tape, false);
  const DType dtype = self.dtype();
  const unsigned last = 1u << (self.rank() - 1);
  Tensor peak = reduce(kLogsumexp, dtype, element_size(dtype), self, last, true);
  {
    Tensor size = plain(kLogsumexp, dtype, peak);
    Tensor infinite = plain(kLogsumexp, DType::boolean, size);
    drop(infinite, size);
  }
  Tensor shifted = elementwise(kLogsumexp, dtype, {&self, &peak});
  Tensor out = reduce(kLogsumexp, dtype, 4, shifted, last, false);
  drop(shifted, peak);
  if (node != nullptr) tape.save(node, out);
  tape.attach(out, node);
  self.reset();
  done(given);
  return out;
}

Tensor mse_loss(Arg self, Arg target) {
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self, target)) {
    node = tape.node(kMseBackward, mse_backward, {&*self, &*target});
    tape.save(node, *self);
    tape.save(node, *target);
  }
  const DType dtype = promote(*self, *target);
  Tensor kept = tape.empty(Shape::contiguous(self->shape().sizes()), dtype, kMse);
  Tensor squares = elementwise(kMse, dtype, {&*self, &*target});
  if (tape.wants_operations()) Work(tape, OperationKind::reduce, kMse).in(squares).out(kept).run();
  squares.reset();
  Tensor out = tape.alias(kept, Shape{}, 0, false);
  kept.reset();
  tape.attach(out, node);
  done(self, target);
  return out;
}

namespace {

const std::uint16_t kLogSigmoid = operation_name("aten::log_sigmoid"),
                    kLogSigmoidBackward = operation_name("LogSigmoidBackward0");

void log_sigmoid_backward(Node& node, Tensors in, Tensors out) {
  const Tensor self = node.unpack(0);
  out[0] = elementwise(node.name, self.dtype(), {&in[0], &self});
}

}  // namespace

Tensor log_sigmoid(Arg self) {
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self)) {
    node = tape.node(kLogSigmoidBackward, log_sigmoid_backward, {&*self});
    tape.save(node, *self);
  }
  Tensor out = elementwise(kLogSigmoid, self->dtype(), {&*self});
  tape.attach(out, node);
  done(self);
  return out;
}

}  // namespace headroom::tape

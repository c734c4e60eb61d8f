#include "simulator/tape/megatron/loss.h"

#include <algorithm>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kCrossEntropy = operation_name("megatron::vocab_parallel_cross_entropy"),
                    kCrossEntropyBackward = operation_name("_VocabParallelCrossEntropyBackward"),
                    kEntropy = operation_name("loss::vocab_parallel_entropy"),
                    kEntropyBackward = operation_name("_VocabParallelEntropyBackward");

using Tensors = std::span<Tensor>;

void softmax_work(Tape& tape, std::uint16_t name, const Tensor& from, const Tensor& to) {
  if (tape.wants_operations())
    Work(tape, OperationKind::softmax, name).in(from).out(to).sizes({from.size(0), from.size(-1)}).run();
}

void cross_entropy_backward(Node& node, Tensors in, Tensors out) {
  const Tensor softmax = node.unpack(0);
  Tape& tape = *node.tape;
  softmax_work(tape, node.name, softmax, softmax);
  Tensor gradient = tape.alias(softmax, softmax.shape(), 0, false);
  if (node.numbers[0] != 0) gradient = to(std::move(gradient), DType::bf16);
  out[0] = std::move(gradient);
  static_cast<void>(in);
}

void entropy_backward(Node& node, Tensors in, Tensors out) {
  const Tensor logits = node.unpack(0), softmax = node.unpack(1);
  softmax_work(*node.tape, node.name, logits, softmax);
  out[0] = node.tape->alias(softmax, softmax.shape(), 0, false);
  static_cast<void>(in);
}

}  // namespace

namespace {

Tensor cross_entropy(Context& c, Arg logits, bool compiled) {
  Tape& tape = c.tape;
  Node* node =
      tape.records(logits) ? tape.node(kCrossEntropyBackward, cross_entropy_backward, {&*logits}) : nullptr;
  const bool wide = logits->dtype() == DType::fp32;
  Tensor softmax = wide ? tape.alias(*logits, logits->shape(), 0, false) : Tensor();
  const auto fresh = [&] {
    const ComponentScope component(tape, Component::logits);
    return tape.empty(Shape::contiguous(logits->shape().sizes()), DType::fp32, kCrossEntropy);
  };
  if (!wide) softmax = fresh();
  // Compiled, the exponentials are one more tensor.
  if (compiled) softmax = fresh();
  if (node != nullptr) node->numbers[0] = wide ? 0 : 1;
  const std::int64_t tokens = logits->size(0);
  const Tensor mask = tape.empty({tokens}, DType::boolean, kCrossEntropy);
  const Tensor target = tape.empty({tokens}, DType::int64, kCrossEntropy);
  Tensor out = tape.empty({tokens}, DType::fp32, kCrossEntropy);
  softmax_work(tape, kCrossEntropy, *logits, softmax);
  if (node != nullptr) {
    tape.save(node, softmax);
    tape.save(node, mask);
    tape.save(node, target);
  }
  tape.attach(out, node);
  done(logits);
  return out;
}

}  // namespace

Tensor vocab_parallel_cross_entropy(Context& c, Arg logits) {
  return cross_entropy(c, logits.pass(), false);
}

Tensor compiled_cross_entropy(Context& c, Arg logits) {
  return cross_entropy(c, logits.pass(), true);
}

Tensor vocab_parallel_entropy(Context& c, const Tensor& logits, std::int64_t rows) {
  Tape& tape = c.tape;
  Node* node = tape.grad_enabled() && logits.requires_grad()
                   ? tape.node(kEntropyBackward, entropy_backward, {&logits})
                   : nullptr;
  const ComponentScope component(tape, Component::logits);
  const std::int64_t at_once = node == nullptr && rows > 0 ? std::min(rows, logits.size(0)) : logits.size(0);
  const Tensor softmax = tape.empty({at_once, logits.size(1)}, DType::fp32, kEntropy);
  Tensor out = tape.empty({logits.size(0)}, DType::fp32, kEntropy);
  softmax_work(tape, kEntropy, logits, softmax);
  if (node != nullptr) {
    tape.save(node, logits);
    tape.save(node, softmax);
  }
  tape.attach(out, node);
  return out;
}

}  // namespace headroom::tape::megatron

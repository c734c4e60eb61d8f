#include "simulator/tape/operations/token_losses.h"

#include <algorithm>

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/in_place.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kCrossEntropy = operation_name("flash_attn::cross_entropy"),
                    kCrossEntropyBackward = operation_name("CrossEntropyLossBackward"),
                    kEntropy = operation_name("compiled::entropy_from_logits"),
                    kEntropyBackward = operation_name("CompiledFunctionBackward"),
                    kFused = operation_name("fused_linear_logprobs"),
                    kFusedBackward = operation_name("FusedLinearForPPOFunctionBackward");

void cross_entropy_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor logits = node.unpack(0), logsumexp = node.unpack(1), labels = node.unpack(2);
  Tape& tape = *node.tape;
  out[0] = node.numbers[0] != 0
               ? tape.alias(logits, logits.shape(), 0, false)
               : tape.empty(Shape::contiguous(logits.shape().sizes()), logits.dtype(), node.name);
  if (tape.wants_operations())
    Work(tape, OperationKind::cross_entropy, node.name)
        .in(in[0])
        .in(logits)
        .in(logsumexp)
        .in(labels)
        .out(out[0])
        .sizes({logits.size(0), logits.size(-1)})
        .run();
}

void entropy_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor logits = node.unpack(0), statistics = node.unpack(1);
  Tape& tape = *node.tape;
  out[0] = tape.empty(Shape::contiguous(logits.shape().sizes()), logits.dtype(), node.name);
  Tensor part;
  if (node.numbers[0] > 0)
    part = tape.empty({std::min(node.numbers[0], logits.size(0)), logits.size(-1)}, DType::fp32, node.name);
  if (tape.wants_operations())
    Work(tape, OperationKind::softmax, node.name)
        .in(in[0])
        .in(logits)
        .in(statistics)
        .out(out[0])
        .sizes({logits.size(0), logits.size(-1)})
        .run();
}

/// Bytes a logit of one chunk while the fused loss works on it: three fp32 values at once, forward (logits,
/// probabilities, products) and backward (logits, probabilities, gradient); two more where the entropy has a
/// gradient.
constexpr std::int64_t kFusedForward = 12, kFusedBackwardBytes = 12, kFusedBackwardEntropyBytes = 20;

Tensor fused_scratch(Tape& tape, std::int64_t rows, std::int64_t vocabulary, std::int64_t bytes) {
  const ComponentScope component(tape, Component::logits);
  return rows > 0 ? tape.empty({rows * vocabulary * bytes}, DType::uint8, kFused) : Tensor();
}

void fused_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor hidden = node.unpack(0), weight = node.unpack(1);
  Tape& tape = *node.tape;
  const std::int64_t rows = std::min(node.numbers[0], hidden.size(0));
  if (node.wants(0))
    out[0] = tape.empty(Shape::contiguous(hidden.shape().sizes()), hidden.dtype(), node.name);
  if (node.wants(1)) out[1] = tape.empty(like(weight.shape()), weight.dtype(), node.name);
  const Tensor scratch = fused_scratch(tape, rows, weight.size(0),
                                       in[1].defined() ? kFusedBackwardEntropyBytes : kFusedBackwardBytes);
  Tensor product;
  if (node.wants(1) && rows > 0) product = tape.empty(like(weight.shape()), weight.dtype(), node.name);
  if (tape.wants_operations())
    Work(tape, OperationKind::matmul, node.name)
        .in(hidden)
        .in(weight)
        .out(out[0])
        .out(out[1])
        .sizes({hidden.size(0), weight.size(0), weight.size(1), 1})
        .flops(6.0 * static_cast<double>(hidden.size(0)) * static_cast<double>(weight.elements()))
        .run();
}

}  // namespace

Tensor flash_cross_entropy(Arg logits, Arg labels, bool in_place) {
  Tape& tape = logits->tape();
  Node* node = nullptr;
  if (tape.grad_enabled() && logits->requires_grad()) {
    node = tape.node(kCrossEntropyBackward, cross_entropy_backward, {&*logits});
    node->numbers[0] = in_place ? 1 : 0;
    tape.save(node, *logits);
  }
  const std::int64_t rows = logits->size(0);
  Tensor losses = tape.empty({rows}, DType::fp32, kCrossEntropy);
  Tensor logsumexp = tape.empty({rows}, DType::fp32, kCrossEntropy);
  Tensor z_losses = tape.empty({rows}, DType::fp32, kCrossEntropy);
  if (tape.wants_operations())
    Work(tape, OperationKind::cross_entropy, kCrossEntropy)
        .in(*logits)
        .in(*labels)
        .out(losses)
        .out(logsumexp)
        .sizes({rows, logits->size(-1)})
        .run();
  if (node != nullptr) {
    tape.save(node, logsumexp);
    tape.save(node, *labels);
  }
  tape.attach(losses, node);
  drop(z_losses, logsumexp);
  done(logits, labels);
  return losses;
}

namespace {

/// `chunk`: so many rows of the gradient are made at a time, in fp32; 0: it is made at once.
Tensor entropy_of(Arg logits, std::int64_t chunk) {
  Tape& tape = logits->tape();
  Node* node = nullptr;
  if (tape.grad_enabled() && logits->requires_grad()) {
    node = tape.node(kEntropyBackward, entropy_backward, {&*logits});
    node->numbers[0] = chunk;
    tape.save(node, *logits);
  }
  const std::int64_t rows = logits->size(0);
  Tensor out = tape.empty({rows}, DType::fp32, kEntropy);
  Tensor statistics = tape.empty({2, rows}, DType::fp32, kEntropy);
  if (tape.wants_operations())
    Work(tape, OperationKind::softmax, kEntropy).in(*logits).out(out).sizes({rows, logits->size(-1)}).run();
  if (node != nullptr) tape.save(node, statistics);
  tape.attach(out, node);
  statistics.reset();
  done(logits);
  return out;
}

}  // namespace

Tensor compiled_entropy(Arg logits) {
  return entropy_of(logits.pass(), 0);
}

Tensor compiled_chunked_entropy(Arg logits, std::int64_t rows) {
  return entropy_of(logits.pass(), rows);
}

Tensor eager_entropy(const Tensor& logits) {
  const DType wide = logits.tape().autocast().enabled ? DType::fp32 : logits.dtype();
  Tensor probabilities = softmax(logits, wide);
  Tensor joint = logsumexp(to(logits, wide));
  Tensor products = mul(probabilities, logits);
  Tensor expected = sum(std::move(products), 1u << (logits.rank() - 1), false);
  Tensor out = sub(std::move(joint), std::move(expected));
  probabilities.reset();
  return out;
}

Tensor chunked_entropy(const Tensor& logits, std::int64_t rows) {
  Tensor out = fill(logits.tape(), Shape{logits.size(0)}, DType::fp32);
  Tensor wide, probabilities, entropy;
  for (std::int64_t at = 0; at < logits.size(0); at += rows) {
    const std::int64_t count = std::min(rows, logits.size(0) - at);
    wide = to(slice(logits, 0, at, count), DType::fp32);
    probabilities = softmax(wide, DType::fp32);
    Tensor joint = logsumexp(wide);
    Tensor products = mul(probabilities, wide);
    Tensor expected = sum(std::move(products), 2u, false);
    entropy = sub(std::move(joint), std::move(expected));
    out = copy_rows_in_place(std::move(out), at, entropy);
  }
  drop(wide, probabilities, entropy);
  return out;
}

FusedOutput fused_linear_logprobs(Arg hidden, const Tensor& weight, Arg labels, std::int64_t rows) {
  Tape& tape = hidden->tape();
  Node* node = nullptr;
  if (tape.grad_enabled() && (hidden->requires_grad() || weight.requires_grad())) {
    node = tape.node(kFusedBackward, fused_backward, {&*hidden, &weight});
    node->numbers[0] = rows;
    tape.save(node, *hidden);
    tape.save(node, weight);
    tape.save(node, *labels);
  }
  const std::int64_t tokens = hidden->size(0);
  FusedOutput out{tape.empty({tokens}, DType::fp32, kFused), tape.empty({tokens}, DType::fp32, kFused)};
  const Tensor scratch = fused_scratch(tape, std::min(rows, tokens), weight.size(0), kFusedForward);
  if (tape.wants_operations())
    Work(tape, OperationKind::matmul, kFused)
        .in(*hidden)
        .in(weight)
        .out(out.logprobs)
        .out(out.entropy)
        .sizes({tokens, weight.size(0), weight.size(1), 1})
        .flops(2.0 * static_cast<double>(tokens) * static_cast<double>(weight.elements()))
        .run();
  tape.attach(out.logprobs, node, 0);
  tape.attach(out.entropy, node, 1);
  done(hidden, labels);
  return out;
}

namespace {

const std::uint16_t kLiger = operation_name("LigerFusedLinearCrossEntropyFunction"),
                    kLigerBackward = operation_name("LigerFusedLinearCrossEntropyFunctionBackward");

/// What the forward kept is scaled in place.
void liger_backward(Node& node, std::span<Tensor>, std::span<Tensor> out) {
  std::size_t slot = 0;
  for (std::uint16_t input = 0; input < 2; ++input) {
    if (!node.wants(input)) continue;
    const Tensor kept = node.unpack(slot++);
    out[input] = node.tape->alias(kept, kept.shape(), 0, false);
  }
}

}  // namespace

std::int64_t liger_rows(std::int64_t tokens, std::int64_t vocabulary, std::int64_t width) {
  const std::int64_t parts = ceil_div(vocabulary, width), least = ceil_div(tokens, parts);
  std::int64_t rows = 1;
  while (rows < least) rows *= 2;
  return rows;
}

Tensor liger_linear_loss(Arg hidden, const Tensor& weight, Arg labels, std::int64_t rows) {
  Tape& tape = hidden->tape();
  const ComponentScope component(tape, Component::logits);
  const bool of_hidden = tape.grad_enabled() && hidden->requires_grad(),
             of_weight = tape.grad_enabled() && weight.requires_grad();
  Node* node =
      of_hidden || of_weight ? tape.node(kLigerBackward, liger_backward, {&*hidden, &weight}) : nullptr;
  const std::int64_t tokens = hidden->size(0), vocabulary = weight.size(0);
  const DType compute = tape.autocast().enabled ? tape.autocast().dtype : weight.dtype();
  const Tensor losses = tape.empty({tokens}, DType::fp32, kLiger);
  Tensor hidden_gradient = tape.empty(like(hidden->shape()), hidden->dtype(), kLiger), weight_gradient;
  if (of_weight) weight_gradient = tape.empty(like(weight.shape()), weight.dtype(), kLiger);
  for (std::int64_t first = 0; first < tokens; first += rows) {
    const std::int64_t part = std::min(rows, tokens - first);
    Tensor cast, logits;
    if (compute != weight.dtype()) cast = tape.empty(like(weight.shape()), compute, kLiger);
    logits = tape.empty({part, vocabulary}, compute, kLiger);
    if (tape.wants_operations())
      Work(tape, OperationKind::matmul, kLiger)
          .in(*hidden)
          .in(weight)
          .out(logits)
          .sizes({part, vocabulary, weight.size(1), 1})
          .flops((of_hidden ? 6.0 : 2.0) * static_cast<double>(part) * static_cast<double>(weight.elements()))
          .run();
    cast.reset();
    if (of_hidden) {
      if (compute != weight.dtype()) cast = tape.empty(like(weight.shape()), compute, kLiger);
      const Tensor product = tape.empty({part, weight.size(1)}, compute, kLiger);
    }
    cast.reset();
    // Added to fp32 directly; else a product of its own, widened.
    if (!of_weight || weight.dtype() == DType::fp32) continue;
    const Tensor product = tape.empty(like(weight.shape()), compute, kLiger);
    const Tensor wide = tape.empty(like(weight.shape()), DType::fp32, kLiger);
  }
  Tensor loss = tape.empty({}, DType::fp32, kLiger);
  if (node != nullptr) {
    if (of_hidden) tape.save(node, hidden_gradient);
    if (of_weight) tape.save(node, weight_gradient);
  }
  tape.attach(loss, node);
  done(hidden, labels);
  return loss;
}

}  // namespace headroom::tape

#include "simulator/tape/megatron/own_attention.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kRepeat = operation_name("aten::repeat_interleave"),
                    kRepeatBackward = operation_name("IndexSelectBackward0"),
                    kScores = operation_name("aten::baddbmm"),
                    kScoresBackward = operation_name("BaddbmmBackward0"),
                    kMask = operation_name("megatron::causal_mask"),
                    kMaskBackward = operation_name("MaskedFillBackward0");

using Tensors = std::span<Tensor>;

void repeat_backward(Node& node, Tensors in, Tensors out) {
  out[0] = node.tape->empty(Shape::contiguous(node.shape.sizes()), in[0].dtype(), node.name);
  if (node.tape->wants_operations())
    Work(*node.tape, OperationKind::copy, node.name).in(in[0]).out(out[0]).run();
}

/// Each key/value head `times` times in a row.
Tensor repeated(const Tensor& heads, std::int64_t times) {
  if (times == 1) return heads;
  Tape& tape = heads.tape();
  Node* node = nullptr;
  if (tape.grad_enabled() && heads.requires_grad()) {
    node = tape.node(kRepeatBackward, repeat_backward, {&heads});
    node->shape = heads.shape();
  }
  Tensor out = tape.empty({heads.size(0), heads.size(1), heads.size(2) * times, heads.size(3)}, heads.dtype(),
                          kRepeat);
  if (tape.wants_operations()) Work(tape, OperationKind::copy, kRepeat).in(heads).out(out).run();
  tape.attach(out, node);
  return out;
}

void scores_work(std::uint16_t name, const Tensor& a, const Tensor& b, const Tensor& out, std::int64_t k) {
  Tape& tape = out.tape();
  if (!tape.wants_operations()) return;
  Work(tape, OperationKind::matmul, name)
      .in(a)
      .in(b)
      .out(out)
      .sizes({out.size(1), out.size(2), k, out.size(0)})
      .flops(2.0 * static_cast<double>(out.elements()) * static_cast<double>(k))
      .run();
}

/// The products' gradients are scaled out of place.
void scores_backward(Node& node, Tensors in, Tensors out) {
  const Tensor query = node.unpack(0), key = node.unpack(1);
  Tape& tape = *node.tape;
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor& other = i == 0 ? key : query;
    const Tensor& like_this = i == 0 ? query : key;
    const Shape shape{like_this.size(0), like_this.size(1), like_this.size(2)};
    const Tensor product = tape.empty(shape, in[0].dtype(), node.name);
    scores_work(node.name, in[0], other, product, in[0].size(2));
    out[i] = tape.empty(shape, in[0].dtype(), node.name);
  }
}

/// baddbmm(buffer, query, key, beta=0) of [b · heads, s, d] operands.
Tensor scores_of(Context& c, const Tensor& query, const Tensor& key) {
  Tape& tape = c.tape;
  Node* node = nullptr;
  if (tape.records(Arg(query), Arg(key))) {
    node = tape.node(kScoresBackward, scores_backward, {&query, &key});
    tape.save(node, query);
    tape.save(node, key);
  }
  const Shape shape{query.size(0), query.size(1), key.size(1)};
  const Tensor buffer = c.process.global_buffer(shape, query.dtype());
  Tensor out = tape.empty(shape, query.dtype(), kScores);
  tape.matmul_workspace(false);
  scores_work(kScores, query, key, out, query.size(2));
  tape.attach(out, node);
  return out;
}

Tensor causal_mask(Tape& tape, std::int64_t s) {
  Tensor ones = tape.empty({s, s}, DType::fp32, kMask);
  Tensor above = tape.empty({s, s}, DType::fp32, kMask);
  ones.reset();
  return tape.empty({s, s}, DType::boolean, kMask);
}

/// scores.masked_fill_(mask): nothing new forward, one tensor backward.
void mask_backward(Node& node, Tensors in, Tensors out) {
  const Tensor mask = node.unpack(0);
  out[0] = elementwise(node.name, in[0].dtype(), {&in[0]});
}
Tensor masked(Tensor scores, const Tensor& mask) {
  Tape& tape = scores.tape();
  if (!tape.grad_enabled() || !scores.requires_grad()) return scores;
  Node* node = tape.node(kMaskBackward, mask_backward, {&scores});
  tape.save(node, mask);
  Tensor out = tape.alias(scores, scores.shape(), 0, false);
  tape.attach(out, node);
  return out;
}

/// [s, b, heads, d] to [b · heads, s, d], a view.
Tensor rows_of(const Tensor& heads) {
  return transpose(view(heads, {heads.size(0), heads.size(1) * heads.size(2), -1}), 0, 1);
}

}  // namespace

Tensor own_core_attention(Context& c, const Tensor& query, const Tensor& key, const Tensor& value) {
  Tape& tape = c.tape;
  const std::int64_t s = query.size(0), b = query.size(1), heads = query.size(2);
  Tensor keys = repeated(key, heads / key.size(2)), values = repeated(value, heads / value.size(2));
  Tensor scores;
  {
    const Tensor flat = reshape(query, {s, b * heads, -1});
    scores = scores_of(c, transpose(flat, 0, 1), rows_of(keys));
  }
  Tensor probabilities;
  {
    Tensor wide = to(view(scores, {b, heads, s, s}), DType::fp32);
    const Tensor mask = causal_mask(tape, s);
    wide = masked(std::move(wide), mask);
    Tensor soft = softmax(wide, DType::fp32);
    probabilities = to(std::move(soft), query.dtype());
  }
  Tensor out;
  {
    const Tensor weights = view(probabilities, {b * heads, s, s});
    Tensor summed = bmm(weights, rows_of(values));
    summed = view(std::move(summed), {b, heads, s, -1});
    out = contiguous(transpose(transpose(std::move(summed), 1, 2), 0, 1));
  }
  drop(keys, values, scores, probabilities);
  return reshape(std::move(out), {s, b, -1});
}

}  // namespace headroom::tape::megatron

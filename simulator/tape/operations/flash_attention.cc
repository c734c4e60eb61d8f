#include "simulator/tape/operations/flash_attention.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/attention_work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kForward = operation_name("flash_attn::varlen_fwd"),
                    kBackward = operation_name("FlashAttnVarlenFuncBackward");

/// Query rows one thread block of the backward handles: scratch is padded by so much a sequence.
constexpr std::int64_t kRowsPadding = 128;

std::int64_t rounded_head_size(std::int64_t d) {
  return d <= 128 ? round_up(d, 32) : round_up(d, 64);
}

/// Attention sees keys before each query only: half of the square, a sequence at a time.
AttentionSize causal_attention(const Tensor& query, std::int64_t sequences, double products) {
  const std::int64_t packed = query.size(0) * query.size(2);
  const auto tokens = static_cast<double>(packed);
  const auto width = static_cast<double>(query.size(1) * query.size(3));
  return {.sequences = sequences,
          .queries = packed / sequences,
          .keys = packed / sequences,
          .flops = products * 2.0 * tokens * (tokens / static_cast<double>(sequences)) * width / 2};
}

void backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor query = node.unpack(0), key = node.unpack(1), value = node.unpack(2), result = node.unpack(3),
               logsumexp = node.unpack(4);
  Tape& tape = *node.tape;
  const std::int64_t heads = query.size(1), d = query.size(3), sequences = node.numbers[0];
  const std::int64_t rows = query.size(0) * query.size(2) + kRowsPadding * sequences;
  out[0] = tape.empty(like(query.shape()), query.dtype(), node.name);
  out[1] = tape.empty(like(key.shape()), key.dtype(), node.name);
  out[2] = tape.empty(like(value.shape()), value.dtype(), node.name);
  const Tensor row_sums = tape.empty({heads, rows}, DType::fp32, node.name);
  const Tensor accumulated = tape.empty({rows, heads, rounded_head_size(d)}, DType::fp32, node.name);
  Tensor wide_key, wide_value;
  if (key.size(1) != heads) {
    wide_key = tape.empty({key.size(0), heads, key.size(2), key.size(3)}, key.dtype(), node.name);
    wide_value = tape.empty({value.size(0), heads, value.size(2), value.size(3)}, value.dtype(), node.name);
  }
  attention_backward_work(node.name, in[0], {query, key, value, result, logsumexp}, row_sums, out,
                          causal_attention(query, sequences, 5));
}

}  // namespace

Tensor flash_attention_varlen(Arg query, Arg key, Arg value, std::int64_t sequences) {
  Tape& tape = query->tape();
  Tensor v = autocast_cast(*value, tape);
  Tensor k = autocast_cast(*key, tape);
  Tensor q = autocast_cast(*query, tape);
  Node* node = nullptr;
  if (tape.grad_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad())) {
    node = tape.node(kBackward, backward, {&q, &k, &v});
    node->numbers[0] = sequences;
    tape.save(node, q);
    tape.save(node, k);
    tape.save(node, v);
  }
  Shape result = like(q.shape());
  if (v.size(3) != q.size(3)) result = transpose(Shape{q.size(0), q.size(2), q.size(1), v.size(3)}, 1, 2);
  Tensor out = tape.empty(result, q.dtype(), kForward);
  Tensor logsumexp = tape.empty({q.size(1), q.size(0) * q.size(2)}, DType::fp32, kForward);
  Tensor generator = tape.empty({2}, DType::int64, kForward);
  attention_forward_work(kForward, q, k, v, {}, out, logsumexp, causal_attention(q, sequences, 2));
  if (node != nullptr) {
    tape.save(node, out);
    tape.save(node, logsumexp);
    tape.save(node, generator);
  }
  tape.attach(out, node);
  drop(logsumexp, generator);
  drop(q, k, v);
  done(query, key, value);
  return out;
}

}  // namespace headroom::tape

#include "simulator/tape/operations/dense_flash_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simulator/tape/operations/attention_work.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kFlash = operation_name("aten::_scaled_dot_product_flash_attention"),
                    kFlashBackward = operation_name("ScaledDotProductFlashAttentionBackward0"),
                    kPad = operation_name("aten::constant_pad_nd"),
                    kPadBackward = operation_name("ConstantPadNdBackward0");

constexpr std::int64_t kRowBlock = 128, kSplitRowBlock = 64, kMostSplits = 128;

std::int64_t rounded_head_size(std::int64_t d) {
  return d <= 128 ? round_up(d, 32) : round_up(d, 64);
}

/// Heads' numbers are padded to a multiple of this.
constexpr std::int64_t kAlignment = 8;

/// The padding's gradient: a copy of the part that was there before, in the order of its memory.
void pad_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  Shape part = in[0].shape();
  part.size[3] = node.numbers[0];
  out[0] = node.tape->empty(like(part), in[0].dtype(), node.name);
}

/// constant_pad_nd of the last dimension: row-major.
Tensor padded(const Tensor& heads) {
  Tape& tape = heads.tape();
  Node* node = nullptr;
  if (tape.grad_enabled() && heads.requires_grad()) {
    node = tape.node(kPadBackward, pad_backward, {&heads});
    node->numbers[0] = heads.size(3);
  }
  const std::int64_t d = round_up(heads.size(3), kAlignment);
  Tensor out = tape.empty({heads.size(0), heads.size(1), heads.size(2), d}, heads.dtype(), kPad);
  tape.attach(out, node);
  return out;
}

/// As the backward kernel wants it: token by token, copied where it lies otherwise.
Tensor by_token(const Tensor& heads) {
  return contiguous(transpose(heads, 1, 2));
}

void flash_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor key = node.unpack(0), query = node.unpack(1), value = node.unpack(2),
               logsumexp = node.unpack(3), result = node.unpack(4);
  Tape& tape = *node.tape;
  const std::uint16_t name = node.name;
  const std::int64_t batch = query.size(0), heads = query.size(1), d = query.size(3);
  const std::int64_t rows = round_up(query.size(2), kRowBlock);
  const Tensor gradient = by_token(in[0]), output = by_token(result);
  out[0] = tape.empty(like(query.shape()), query.dtype(), name);
  out[1] = tape.empty(like(key.shape()), key.dtype(), name);
  out[2] = tape.empty(like(value.shape()), value.dtype(), name);
  const ComponentScope component(tape, Component::temporaries);
  const Tensor sums = tape.empty({batch, heads, rows}, DType::fp32, name);
  const Tensor wide_query = tape.empty({batch, rows, heads, rounded_head_size(d)}, DType::fp32, name);
  Tensor wide_key, wide_value;
  if (key.size(1) != heads) {
    wide_key = tape.empty({batch, key.size(2), heads, d}, key.dtype(), name);
    wide_value = tape.empty({batch, value.size(2), heads, value.size(3)}, value.dtype(), name);
  }
  attention_backward_work(name, in[0], {query, key, value, result, logsumexp}, wide_query, out,
                          full_attention(query, key, 5));
}

}  // namespace

std::int64_t key_splits(std::int64_t blocks, std::int64_t processors, std::int64_t key_blocks) {
  if (static_cast<double>(blocks) >= 0.8 * static_cast<double>(processors)) return 1;
  const std::int64_t most = std::min({kMostSplits, processors, key_blocks});
  // A split that gives no part fewer key blocks than one split less is passed over.
  const auto helps = [&](std::int64_t splits) {
    return splits == 1 || ceil_div(key_blocks, splits) != ceil_div(key_blocks, splits - 1);
  };
  const auto filled = [&](std::int64_t splits) {
    const double waves = static_cast<double>(blocks * splits) / static_cast<double>(processors);
    return waves / std::ceil(waves);
  };
  double best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits)
    if (helps(splits)) best = std::max(best, filled(splits));
  for (std::int64_t splits = 1; splits <= most; ++splits)
    if (helps(splits) && filled(splits) >= 0.85 * best) return splits;
  return 1;
}

Tensor dense_flash_attention(const Tensor& query, const Tensor& key, const Tensor& value, bool causal) {
  Tape& tape = query.tape();
  if (query.size(3) % kAlignment != 0) {
    Tensor q = padded(query), k = padded(key), v = padded(value);
    Tensor wide = dense_flash_attention(q, k, v, causal);
    drop(v, k, q);
    return slice(std::move(wide), 3, 0, value.size(3));
  }
  const std::int64_t batch = query.size(0), heads = query.size(1), rows = query.size(2), d = query.size(3);
  const bool recorded =
      tape.grad_enabled() && (query.requires_grad() || key.requires_grad() || value.requires_grad());
  Node* node = nullptr;
  if (recorded) {
    node = tape.node(kFlashBackward, flash_backward, {&query, &key, &value});
    for (const Tensor* saved : {&key, &query, &value}) tape.save(node, *saved);
  }
  Tensor out = tape.empty(like(query.shape()), query.dtype(), kFlash);
  Tensor logsumexp = tape.empty({batch, heads, rows}, DType::fp32, kFlash);
  const std::int64_t columns = d <= 64 ? 256 : d <= 128 ? 128 : 64;
  const std::int64_t splits = key_splits(batch * heads * ceil_div(rows, kSplitRowBlock),
                                         2 * tape.traits().multiprocessors, ceil_div(key.size(2), columns));
  Tensor split_sums, split_results;
  if (splits > 1) {
    const ComponentScope component(tape, Component::temporaries);
    split_sums = tape.empty({splits, batch, heads, rows}, DType::fp32, kFlash);
    split_results = tape.empty({splits, batch, heads, rows, rounded_head_size(d)}, DType::fp32, kFlash);
  }
  Tensor generator = tape.empty({2}, DType::int64, kFlash), unused = tape.empty({}, DType::int64, kFlash);
  attention_forward_work(kFlash, query, key, value, split_results, out, logsumexp,
                         full_attention(query, key, causal && rows > 1 ? 1 : 2));
  drop(split_results, split_sums);
  if (node != nullptr)
    for (const Tensor* saved : {&logsumexp, &out, &generator, &unused}) tape.save(node, *saved);
  tape.attach(out, node);
  drop(logsumexp, generator, unused);
  return out;
}

}  // namespace headroom::tape

#include "simulator/tape/operations/fp32_attention.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/attention_work.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kEfficient = operation_name("aten::_scaled_dot_product_efficient_attention"),
                    kEfficientBackward = operation_name("ScaledDotProductEfficientAttentionBackward0"),
                    kComposite = operation_name("aten::_scaled_dot_product_attention_math"),
                    kEmptyRows = operation_name("aten::_safe_softmax");

constexpr std::int64_t kLogSumExpRows = 32, kBiasColumns = 8;
constexpr std::int64_t kTileColumns = 64, kTileLock = 16;

/// A tensor [B,heads,T,d] laid out [B,T,heads,d].
Tensor by_token(Tape& tape, const Shape& shape, DType dtype, std::uint16_t name) {
  const Tensor made = tape.empty({shape[0], shape[2], shape[1], shape[3]}, dtype, name);
  return tape.alias(made, tape::transpose(made.shape(), 1, 2));
}

/// Narrow types take tiles as wide as their rows.
Bytes backward_workspace(const Shape& query, DType dtype) {
  const std::int64_t rows = query[3] <= kTileColumns ? 64 : 128;
  const std::int64_t columns = dtype == DType::fp32 ? kTileColumns : rows;
  const std::int64_t tiles = ceil_div(query[2], rows) * ceil_div(query[3], columns);
  return query[0] * query[1] * tiles * (kTileLock + rows * columns * 4);
}

void efficient_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const int first = static_cast<int>(node.numbers[0]);
  Tensor bias;
  if (first > 0) bias = node.unpack(0);
  const Tensor key = node.unpack(first), query = node.unpack(first + 1), value = node.unpack(first + 2),
               logsumexp = node.unpack(first + 3), result = node.unpack(first + 4);
  Tape& tape = *node.tape;
  const std::uint16_t name = node.name;
  out[0] = by_token(tape, query.shape(), query.dtype(), name);
  out[1] = by_token(tape, key.shape(), key.dtype(), name);
  out[2] = by_token(tape, value.shape(), value.dtype(), name);
  const ComponentScope component(tape, Component::temporaries);
  Tensor turned;
  if (query.dtype() == DType::fp32) {
    Tensor product = elementwise(name, DType::fp32, {&in[0], &result});
    Tensor sums = tape.empty({query.size(0), query.size(2), query.size(1)}, DType::fp32, name);
    turned = tape.empty({query.size(0), query.size(1), query.size(2)}, DType::fp32, name);
    drop(sums, product);
  } else {  // the kernel makes the sums itself
    turned = tape.empty({query.size(0), query.size(1), query.size(2)}, DType::fp32, name);
  }
  Tensor workspace = tape.empty({backward_workspace(query.shape(), query.dtype())}, DType::uint8, name);
  attention_backward_work(name, in[0], {query, key, value, result, logsumexp}, workspace, out,
                          full_attention(query, key, 5));
  drop(turned, workspace);
}

/// Scores' mask of a causal composite attention: the lower triangle as flags, then as numbers.
Tensor causal_bias(Tape& tape, std::int64_t rows, std::int64_t columns, DType dtype) {
  const auto flags = [&] { return tape.empty({rows, columns}, DType::boolean, kComposite); };
  Tensor ones = flags();
  Tensor lower = flags();
  ones.reset();
  Tensor zero = tape.empty({}, dtype, kComposite), lowest = tape.empty({}, dtype, kComposite);
  Tensor bias = tape.empty({rows, columns}, dtype, kComposite);
  drop(lowest, zero, lower);
  return bias;
}

/// [B,groups,S,d] copied for each of `heads` query heads.
Tensor repeated(const Tensor& grouped, std::int64_t heads) {
  const std::int64_t groups = heads / grouped.size(1);
  if (groups == 1) return grouped;
  const std::int64_t batch = grouped.size(0), columns = grouped.size(2), d = grouped.size(3);
  Tensor wide = expand(unsqueeze(grouped, 2), {batch, grouped.size(1), groups, columns, d});
  return view(contiguous(std::move(wide)), {batch, heads, columns, d});
}

}  // namespace

Tensor efficient_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias) {
  Tape& tape = query.tape();
  Tensor padded;
  if (bias.defined() && bias.size(-1) % kBiasColumns != 0) {
    Shape wide = bias.shape();
    wide.size[static_cast<std::size_t>(wide.rank - 1)] = ceil_div(bias.size(-1), kBiasColumns) * kBiasColumns;
    set_contiguous(wide);
    padded = tape.empty(wide, bias.dtype(), kEfficient);
  } else {
    padded = bias;
  }
  const bool recorded =
      tape.grad_enabled() && (query.requires_grad() || key.requires_grad() || value.requires_grad());
  Node* node = nullptr;
  if (recorded) {
    node = tape.node(kEfficientBackward, efficient_backward, {&query, &key, &value});
    node->numbers[0] = padded.defined() ? 1 : 0;
    if (padded.defined()) tape.save(node, padded);
    for (const Tensor* saved : {&key, &query, &value}) tape.save(node, *saved);
  }
  Shape shape = query.shape();
  shape.size[3] = value.size(3);
  Tensor out = by_token(tape, shape, query.dtype(), kEfficient);
  Tensor logsumexp;
  if (recorded) {
    const std::int64_t rows = ceil_div(query.size(2), kLogSumExpRows) * kLogSumExpRows;
    logsumexp = tape.empty({query.size(0), query.size(1), rows}, DType::fp32, kEfficient);
  }
  attention_forward_work(kEfficient, query, key, value, {}, out, logsumexp, full_attention(query, key, 2));
  if (node != nullptr)
    for (const Tensor* saved : {&logsumexp, &out}) tape.save(node, *saved);
  tape.attach(out, node);
  drop(logsumexp, padded);
  return out;
}

Tensor composite_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
                           bool causal, GroupedHeads grouped) {
  Tape& tape = query.tape();
  const std::int64_t batch = query.size(0), heads = query.size(1), rows = query.size(2),
                     columns = key.size(2);
  const Autocast own_dtypes(tape, false);
  Tensor q = to(query, DType::fp32), k = to(key, DType::fp32), v = to(value, DType::fp32);
  Tensor scaled = mul_scalar(q);
  Tensor mask = bias;
  if (causal && rows > 1) mask = causal_bias(tape, rows, columns, DType::fp32);
  const bool repeats = grouped == GroupedHeads::repeated;
  Tensor keys = repeats ? repeated(k, heads) : k, values = repeats ? repeated(v, heads) : v;
  Tensor scores;
  {
    Tensor scaled_keys = mul_scalar(keys);
    scores = matmul(scaled, transpose(scaled_keys, 2, 3));
  }
  if (mask.defined()) add_in_place(scores, mask);
  Tensor weights = softmax(scores, scores.dtype());
  {
    Tensor infinite = plain(kEmptyRows, DType::boolean, weights);
    Tensor empty = tape.empty({batch, heads, rows, 1}, DType::boolean, kEmptyRows);
    Tensor zero = tape.empty({}, weights.dtype(), kEmptyRows);
    drop(zero, empty, infinite);
  }
  scores.reset();
  // Probabilities are a second result, which nobody takes.
  Tensor narrow = to(weights, query.dtype());
  Tensor out = to(matmul(weights, values), query.dtype());
  drop(weights, values, keys, mask, scaled, v, k, q, narrow);
  return out;
}

}  // namespace headroom::tape

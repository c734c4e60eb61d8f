#include "simulator/tape/modules/eager_attention.h"

#include "simulator/tape/modules/position_ids.h"
#include "simulator/tape/operations/attention.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kMask = operation_name("eager_mask");

/// Indices of batch, head, query and key; which of them may see each other; padding; as numbers to add.
Tensor eager_mask(const ModelInput& input, DType dtype) {
  Tape& tape = input.ids.tape();
  const auto flags = [&](const Shape& shape) { return tape.empty(shape, DType::boolean, kMask); };
  const auto range = [&](std::int64_t n) { return tape.empty({n}, DType::int64, kMask); };
  const auto shifted = [&](std::int64_t n) {
    const Tensor from_zero = range(n);
    return range(n);
  };
  const std::int64_t batch = input.ids.size(0), tokens = input.ids.size(1);
  const std::int64_t columns = input.attention_mask.defined() ? input.attention_mask.size(1) : tokens;
  Tensor padding;
  if (input.attention_mask.defined()) padding = plain(kMask, DType::boolean, input.attention_mask);
  Tensor rows = range(batch), heads = range(1);
  Tensor queries = shifted(tokens), keys = shifted(columns);
  Tensor visible;
  if (!padding.defined()) {
    visible = flags({tokens, columns});
  } else {
    Tensor yes = flags({});
    Tensor causal = flags({tokens, columns});
    Tensor both = flags({tokens, columns});
    drop(causal, yes);
    Tensor row_index = tape.empty({batch, columns}, DType::int64, kMask);
    Tensor column_index = tape.empty({batch, columns}, DType::int64, kMask);
    Tensor kept = flags({batch, columns});
    drop(column_index, row_index);
    visible = flags({batch, 1, tokens, columns});
    drop(kept, both);
  }
  drop(rows, heads, queries, keys);
  Tensor zero = tape.empty({}, dtype, kMask), lowest = tape.empty({}, dtype, kMask);
  Tensor out = tape.empty({batch, 1, tokens, columns}, dtype, kMask);
  drop(lowest, zero, visible, padding);
  return out;
}

}  // namespace

Tensor attention_mask(AttentionImplementation implementation, const ModelInput& input,
                      const Tensor& position_ids, DType dtype) {
  const std::int64_t batch = input.ids.size(0);
  if (implementation != AttentionImplementation::eager) {
    probe_mask(position_ids, input.attention_mask, batch);
    return {};
  }
  if (!input.attention_mask.defined()) probe_mask(position_ids, {}, batch);
  return eager_mask(input, dtype);
}

Tensor attend_heads(AttentionImplementation implementation, const Tensor& query, const Tensor& key,
                    const Tensor& value, const Tensor& mask, Tensor& weights) {
  if (implementation != AttentionImplementation::eager)
    return transpose(scaled_dot_product_attention(query, key, value), 1, 2);
  weights = mul_scalar(matmul(query, transpose(key, 2, 3)));
  if (mask.defined()) weights = add(weights, mask);
  weights = to(softmax(weights, DType::fp32), query.dtype());
  Tensor out = matmul(weights, value);
  return contiguous(transpose(std::move(out), 1, 2));
}

}  // namespace headroom::tape

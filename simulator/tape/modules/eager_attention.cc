#include "simulator/tape/modules/eager_attention.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/modules/position_ids.h"
#include "simulator/tape/operations/attention.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/dropout.h"
#include "simulator/tape/operations/experts.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kMask = operation_name("eager_mask");

/// Which positions may see each other, out of indices of batch, head, query and key, and of the padding.
/// `probes`: how often the padding is asked first whether it is all ones; 0 also for a window that has been
/// reached, whose columns are looked up in vain; kNeverAsked: nobody looks.
constexpr int kNeverAsked = -1;
Tensor visible_positions(const ModelInput& input, MaskKind kind, std::int64_t held, Tensor& padding,
                         int probes) {
  Tape& tape = input.ids.tape();
  const auto flags = [&](const Shape& shape) { return tape.empty(shape, DType::boolean, kMask); };
  const auto range = [&](std::int64_t n) { return tape.empty({n}, DType::int64, kMask); };
  const auto shifted = [&](std::int64_t n) {
    const Tensor from_zero = range(n);
    return range(n);
  };
  const std::int64_t batch = input.ids.size(0), tokens = input.ids.size(1);
  const std::int64_t all = input.attention_mask.defined() ? input.attention_mask.size(1) : tokens;
  const std::int64_t columns = held > 0 ? held : all;
  if (input.attention_mask.defined()) padding = plain(kMask, DType::boolean, input.attention_mask);
  if (padding.defined() && columns < all && kind == MaskKind::sliding && probes != kNeverAsked) {
    // The columns that are held, to ask whether any of them is padded.
    const Tensor places = shifted(columns);
    const Tensor local = flags({batch, columns});
  }
  for (int i = 0; i < probes; ++i) probe_padding(padding);
  Tensor rows = range(batch), heads = range(1);
  Tensor queries = shifted(tokens), keys = shifted(columns);
  // Rules are joined pair by pair, the first of them with a constant.
  const Shape table{tokens, columns};
  const auto joined = [&](Tensor& before, Tensor& rule) {
    Tensor out = flags(table);
    drop(rule, before);
    return out;
  };
  Tensor visible;
  if (!padding.defined() && kind != MaskKind::sliding) {
    visible = expand(unsqueeze(unsqueeze(flags(table), 0), 0), {batch, 1, tokens, columns});
  } else {
    Tensor yes, both;
    if (padding.defined()) yes = flags({});
    if (kind == MaskKind::sliding) {
      Tensor start = flags({});
      Tensor near;
      {
        const Tensor shifted_queries = range(tokens);
        near = flags(table);
      }
      Tensor within = joined(start, near);
      Tensor causal = flags(table);
      both = joined(within, causal);
      if (padding.defined()) both = joined(yes, both);
    } else {
      Tensor causal = flags(table);
      both = joined(yes, causal);
    }
    if (!padding.defined()) {
      drop(rows, heads, queries, keys);
      return expand(unsqueeze(unsqueeze(std::move(both), 0), 0), {batch, 1, tokens, columns});
    }
    // Indices are copied where they are not contiguous as expanded: columns are for a single row.
    Tensor row_index = tape.empty({batch, columns}, DType::int64, kMask), column_index;
    if (batch > 1) column_index = tape.empty({batch, columns}, DType::int64, kMask);
    Tensor kept = flags({batch, columns});
    drop(column_index, row_index);
    visible = flags({batch, 1, tokens, columns});
    drop(kept, both);
  }
  drop(rows, heads, queries, keys);
  return visible;
}

/// The same as numbers to add.
Tensor eager_mask(const ModelInput& input, MaskKind kind, std::int64_t held, DType dtype) {
  Tape& tape = input.ids.tape();
  const std::int64_t batch = input.ids.size(0), tokens = input.ids.size(1);
  Tensor padding;
  Tensor visible = visible_positions(input, kind, held, padding, kNeverAsked);
  const std::int64_t columns = visible.size(-1);
  Tensor zero = tape.empty({}, dtype, kMask), lowest = tape.empty({}, dtype, kMask);
  Tensor out = tape.empty({batch, 1, tokens, columns}, dtype, kMask);
  drop(lowest, zero, visible, padding);
  return out;
}

}  // namespace

Tensor attention_mask(AttentionImplementation implementation, const ModelInput& input,
                      const Tensor& position_ids, DType dtype, MaskKind kind, std::int64_t columns) {
  const std::int64_t batch = input.ids.size(0);
  const bool eager = implementation == AttentionImplementation::eager;
  if (!eager && (input.padded || kind != MaskKind::causal)) {
    if (!input.attention_mask.defined() && kind != MaskKind::always) probe_mask(position_ids, {}, batch);
    Tensor padding;
    // Once to leave the mask out altogether, once more for a whole sequence to leave the padding out.
    const int probes = kind != MaskKind::causal ? 0 : input.ids.size(1) > 1 ? 2 : 1;
    return visible_positions(input, kind, columns, padding, probes);
  }
  if (!eager) {
    if (position_ids.defined()) probe_mask(position_ids, input.attention_mask, batch);
    return {};
  }
  const bool probed = position_ids.defined() && kind != MaskKind::always;
  if (!input.attention_mask.defined() && probed) probe_mask(position_ids, {}, batch);
  return eager_mask(input, kind, columns, dtype);
}

Tensor repeat_heads(const Tensor& grouped, std::int64_t heads) {
  const std::int64_t groups = heads / grouped.size(1);
  if (groups == 1) return grouped;
  const std::int64_t batch = grouped.size(0), tokens = grouped.size(2), d = grouped.size(3);
  Tensor wide = expand(unsqueeze(grouped, 2), {batch, grouped.size(1), groups, tokens, d});
  return reshape(std::move(wide), {batch, heads, tokens, d});
}

namespace {

/// Probabilities beside a learned logit of each head, which takes its share and is cut off.
Tensor with_sinks(const Tensor& scores, const Tensor& sinks, DType dtype) {
  const std::int64_t columns = scores.size(3);
  const Tensor wide =
      expand(reshape(sinks, {1, -1, 1, 1}), {scores.size(0), scores.size(1), scores.size(2), 1});
  Tensor combined = cat(scores, wide, -1);
  combined = sub(combined, topk(combined, 1).first);
  const Tensor probabilities = softmax(combined, combined.dtype());
  combined.reset();
  return to(slice(probabilities, -1, 0, columns), dtype);
}

}  // namespace

Tensor attend_eagerly(const EagerForm& form, const Tensor& query, const Tensor& key, const Tensor& value,
                      const Tensor& mask, Tensor& weights) {
  const Tensor keys = repeat_heads(key, query.size(1)), values = repeat_heads(value, query.size(1));
  if (form.fp32)
    weights = matmul(to(query, DType::fp32), transpose(to(keys, DType::fp32), 2, 3));
  else
    weights = matmul(query, transpose(keys, 2, 3));
  if (form.divided_in_place) {
    weights = div_scalar_in_place(weights);
    // In the dtype of the layer's normed input, which autocast has widened.
    const DType dtype = query.tape().autocast().enabled ? DType::fp32 : mask.dtype();
    weights = softmax(add(weights, mask), dtype);
    return contiguous(transpose(matmul(weights, values), 1, 2));
  }
  if (form.scaled) weights = mul_scalar(std::move(weights));
  if (form.softcap) weights = mul_scalar(tanh(div_scalar(std::move(weights))));
  if (mask.defined()) weights = add(weights, mask);
  if (form.sinks != nullptr) {
    weights = with_sinks(weights, *form.sinks, value.dtype());
  } else if (form.own_dtype) {
    Tensor scores = autocast_fp32(weights, query.tape());
    const DType dtype = scores.dtype();
    weights = softmax(std::move(scores), dtype);
    weights = to(weights, value.dtype());
  } else {
    weights = to(softmax(weights, DType::fp32), form.fp32 ? value.dtype() : query.dtype());
  }
  if (form.dropout) weights = dropout(weights);
  Tensor out = matmul(weights, values);
  return contiguous(transpose(std::move(out), 1, 2));
}

Tensor attend_heads(AttentionImplementation implementation, const Tensor& query, const Tensor& key,
                    const Tensor& value, const Tensor& mask, Tensor& weights, const EagerForm& form) {
  if (implementation != AttentionImplementation::eager)
    return transpose(mask.defined() ? masked_attention(query, key, value, mask)
                                    : scaled_dot_product_attention(query, key, value),
                     1, 2);
  return attend_eagerly(form, query, key, value, mask, weights);
}

}  // namespace headroom::tape

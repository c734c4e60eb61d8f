#include "simulator/tape/megatron/own_attention.h"

#include <array>
#include <vector>

#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/megatron/collectives.h"
#include "simulator/tape/megatron/elementary.h"
#include "simulator/tape/megatron/own_linear.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/dense_flash_attention.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kTable = operation_name("megatron::rotary_table");

struct Heads {
  Tensor query, key, value;  ///< [s, b, heads, d]
};

/// cos or sin of every position's angles, in the model's dtype: [s, 1, 1, width].
Tensor table(const Context& c, std::int64_t positions, std::int64_t width) {
  Tape& tape = c.tape;
  const Shape shape{positions, 1, 1, width};
  Tensor wide = tape.empty(shape, DType::fp32, kTable);
  Tensor scaled = tape.empty(shape, DType::fp32, kTable);
  wide.reset();
  return tape.empty(shape, c.options.dtype, kTable);
}

/// t · cos + rotate_half(t) · sin over the first `width` numbers of each head, joined with the rest.
Tensor rotated(const Context& c, const Tensor& heads, std::int64_t width) {
  const std::int64_t d = heads.size(3);
  Tensor out;
  {
    const Tensor part = width < d ? slice(heads, 3, 0, width) : alias(heads);
    const Tensor rest = slice(heads, 3, width, d - width);
    const Tensor cosine = table(c, heads.size(0), width), sine = table(c, heads.size(0), width);
    Tensor straight = mul(part, cosine), turned;
    {
      const std::vector<Tensor> halves = split(part, 3, width / 2);
      Tensor negative = neg(halves[1]);
      turned = cat(std::move(negative), halves[0], 3);
    }
    turned = mul(std::move(turned), sine);
    Tensor sum = add(std::move(straight), std::move(turned));
    out = cat(std::move(sum), rest, 3);
  }
  return out;
}

/// Query, key and value of the fused projection [s · b, groups · (per + 2) · d].
Heads split_heads(Context& c, Arg fused, std::int64_t groups, std::int64_t per, std::int64_t d) {
  const std::int64_t b = c.sequences, s = fused->size(0) / b;
  Heads out;
  {
    const Tensor grouped = view(fused.pass(), {s, b, groups, (per + 2) * d});
    const std::array<std::int64_t, 3> widths{per * d, d, d};
    std::vector<Tensor> parts = split(grouped, 3, widths);
    out.query = reshape(std::move(parts[0]), {s, b, groups * per, d});
    out.key = std::move(parts[1]);
    out.value = std::move(parts[2]);
  }
  return out;
}

/// [s, b, heads, d] to [b, heads, s, d].
Tensor by_head(const Tensor& heads) {
  return transpose(transpose(heads, 0, 1), 1, 2);
}

Tensor flash(const Tensor& query, const Tensor& key, const Tensor& value) {
  Tensor out;
  {
    const Tensor q = by_head(query), k = by_head(key), v = by_head(value);
    out = dense_flash_attention(q, k, v, true);
  }
  const std::int64_t s = query.size(0), b = query.size(1);
  return reshape(transpose(transpose(std::move(out), 1, 2), 0, 1), {s, b, -1});
}

/// Heads dealt out over the context ranks, each with all tokens, and back.
Tensor exchanged(Context& c, const Tensor& query, const Tensor& key, const Tensor& value) {
  const std::int64_t ranks = c.options.parallel.context, s = query.size(0), b = query.size(1);
  const auto turned = [&](const Tensor& x) {
    Tensor sent = exchange(c, contiguous(x), ranks);
    return reshape(std::move(sent), {s * ranks, b, std::max<std::int64_t>(1, x.size(2) / ranks), -1});
  };
  Tensor out;
  {
    Tensor q = turned(query), k = turned(key), v = turned(value);
    out = flash(q, k, v);
  }
  return exchange(c, reshape(std::move(out), {s, b, -1}), ranks);
}

Tensor core(Context& c, const Tensor& query, const Tensor& key, const Tensor& value) {
  if (c.options.attention == AttentionImplementation::eager) return own_core_attention(c, query, key, value);
  if (c.options.parallel.context > 1) return exchanged(c, query, key, value);
  return flash(query, key, value);
}

Tensor core_or_again(Context& c, const Tensor& query, const Tensor& key, const Tensor& value) {
  if (!recomputes(c, "core_attn")) return core(c, query, key, value);
  const Region region = [&c](const Tensor& q, std::span<const Tensor> others) {
    return core(c, q, others[0], others[1]);
  };
  return checkpoint(c.tape, region, query, {key, value});
}

}  // namespace

Tensor own_attention(Context& c, const Layer& layer, const LayerWeights& w, Arg normed) {
  const Attention& a = layer.attention;
  const std::int64_t t = c.tensor(), per = a.heads / a.kv_heads, d = a.head_dim;
  Tensor fused = own_linear(c, *normed, w("self_attention.linear_qkv.weight"),
                            w("self_attention.linear_qkv.bias"), Cut::column);
  done(normed);
  Heads heads;
  if (a.kv_heads >= t) {
    heads = split_heads(c, std::move(fused), a.kv_heads / t, per, d);
  } else {
    Tensor all = row_function(c, std::move(fused), 0, t, gather_features, keep_features);
    Tensor group = slice(std::move(all), 1, 0, (per + 2) * d);
    heads = split_heads(c, std::move(group), 1, per, d);
    heads.query = slice(std::move(heads.query), 2, 0, a.heads / t);
  }
  if (a.query_norm.present())
    heads.query = norm(c, std::move(heads.query), w.norm("self_attention.q_layernorm.", a.query_norm));
  if (a.key_norm.present())
    heads.key = norm(c, std::move(heads.key), w.norm("self_attention.k_layernorm.", a.key_norm));
  // The projection's parts stay named until the end.
  Heads turned = heads;
  if (a.rotary_dim > 0) {
    turned.query = rotated(c, heads.query, a.rotary_dim);
    turned.key = rotated(c, heads.key, a.rotary_dim);
  }
  Tensor rows = core_or_again(c, turned.query, turned.key, heads.value);
  rows = view(std::move(rows), {heads.query.size(0) * heads.query.size(1), -1});
  Tensor out = own_linear(c, rows, w("self_attention.linear_proj.weight"),
                          w("self_attention.linear_proj.bias"), Cut::row);
  drop(heads.query, turned.key, heads.key, heads.value, turned.value, turned.query, rows);
  return out;
}

}  // namespace headroom::tape::megatron

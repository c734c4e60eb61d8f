#include <memory>

#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/megatron/collectives.h"
#include "simulator/tape/megatron/elementary.h"
#include "simulator/tape/megatron/layer.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/flash_attention.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kSplit = operation_name("_SplitAlongDimBackward"),
                    kRing = operation_name("te::ring_buffers"),
                    kJoin = operation_name("megatron::join_heads");

using Tensors = std::span<Tensor>;

/// The fused projection [tokens, groups · (per + 2) · d] in query, key and value views of each group.
void split_backward(Node& node, Tensors in, Tensors out) {
  Tape& tape = *node.tape;
  out[0] = tape.empty(node.shape, in[0].dtype(), node.name);
  if (tape.wants_operations())
    Work(tape, OperationKind::copy, node.name).in(in[0]).in(in[1]).in(in[2]).out(out[0]).run();
}

struct Heads {
  Tensor query, key, value;  ///< [tokens, heads, d]
};

Heads split_heads(Tape& tape, Arg fused, std::int64_t groups, std::int64_t per, std::int64_t d) {
  Node* node = nullptr;
  if (tape.records(fused)) {
    node = tape.node(kSplit, split_backward, {&*fused});
    node->shape = fused->shape();
  }
  const std::int64_t tokens = fused->size(0), group = (per + 2) * d;
  const auto part = [&](std::int64_t width, std::int64_t offset) {
    Shape shape{tokens, groups, width};
    shape.stride = {groups * group, group, 1};
    return tape.alias(*fused, shape, offset);
  };
  Tensor query = part(per * d, 0), key = part(d, per * d), value = part(d, (per + 1) * d);
  tape.attach(query, node, 0);
  tape.attach(key, node, 1);
  tape.attach(value, node, 2);
  Heads out;
  out.query = reshape(std::move(query), {tokens, groups * per, d});
  out.key = std::move(key);
  out.value = std::move(value);
  done(fused);
  return out;
}

Tensor as_batch(const Tensor& heads) {
  return unsqueeze(transpose(heads, 0, 1), 0);
}

/// Key and value blocks on their way around the ring of context ranks: two buffers, and the running output
/// in fp32.
std::vector<Tensor> ring_buffers(Tape& tape, const Tensor& query, const Tensor& key, const Tensor& value) {
  const ComponentScope component(tape, Component::communication);
  std::vector<Tensor> out;
  for (int i = 0; i < 2; ++i)
    out.push_back(tape.empty({key.elements() + value.elements()}, key.dtype(), kRing));
  out.push_back(tape.empty({query.elements()}, DType::fp32, kRing));
  return out;
}

/// Attention over [tokens, heads, d] operands: [tokens, heads · d of values].
Tensor flash(Context& c, const Tensor& query, const Tensor& key, const Tensor& value) {
  Tensor out;
  {
    Tensor q = as_batch(query), k = as_batch(key), v = as_batch(value);
    out = flash_attention_varlen(std::move(q), std::move(k), std::move(v), c.sequences);
  }
  Tensor rows = transpose(squeeze(std::move(out), 0), 0, 1);
  return reshape(std::move(rows), {query.size(0), -1});
}

Tensor ring_attention(Context& c, const Tensor& query, const Tensor& key, const Tensor& value) {
  Tensor out;
  {
    std::vector<Tensor> buffers = ring_buffers(c.tape, query, key, value);
    out = flash(c, query, key, value);
  }
  if (out->producer == nullptr) return out;
  // The backward sends blocks and their gradients around once more.
  const auto held = std::make_shared<std::vector<Tensor>>();
  const Shape q = query.shape(), k = key.shape(), v = value.shape();
  NodeHooks& hooks = Tape::hooks(*out->producer);
  Tape& tape = c.tape;
  hooks.before.push_back([held, &tape, q, k, v, dtype = key.dtype()](std::span<Tensor>) {
    const ComponentScope component(tape, Component::communication);
    for (int i = 0; i < 2; ++i)
      held->push_back(tape.empty({2 * (k.elements() + v.elements())}, dtype, kRing));
    held->push_back(tape.empty({q.elements()}, DType::fp32, kRing));
  });
  hooks.after.push_back([held] { held->clear(); });
  return out;
}

/// Every context rank gets all tokens of its share of the heads, and sends the output back.
Tensor exchanged_attention(Context& c, const Tensor& query, const Tensor& key, const Tensor& value) {
  const std::int64_t ranks = c.options.parallel.context;
  const auto turned = [&](const Tensor& x) {
    Tensor sent = exchange(c, x, ranks);
    // Fewer heads than ranks are repeated; the bytes of a rank stay at least one head's.
    return reshape(std::move(sent), {x.size(0) * ranks, std::max<std::int64_t>(1, x.size(1) / ranks), -1});
  };
  Tensor out;
  {
    Tensor q = turned(query), k = turned(key), v = turned(value);
    out = flash(c, q, k, v);
  }
  Tensor rows = reshape(std::move(out), {query.size(0), -1});
  return exchange(c, std::move(rows), ranks);
}

Tensor core(Context& c, const Tensor& query, const Tensor& key, const Tensor& value) {
  if (c.options.parallel.context == 1) return flash(c, query, key, value);
  return c.options.switches.context_all_to_all ? exchanged_attention(c, query, key, value)
                                               : ring_attention(c, query, key, value);
}

Tensor core_attention(Context& c, Heads heads) {
  if (!recomputes(c, "core_attn")) return core(c, heads.query, heads.key, heads.value);
  const Region region = [&c](const Tensor& q, std::span<const Tensor> others) {
    return core(c, q, others[0], others[1]);
  };
  return checkpoint(c.tape, region, heads.query, {heads.key, heads.value});
}

}  // namespace

Tensor self_attention(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x) {
  const Attention& a = layer.attention;
  // A group's gates stand behind its queries.
  const std::int64_t parts = a.gated ? 2 : 1;
  const std::int64_t t = c.tensor(), per = parts * a.heads / a.kv_heads, d = a.head_dim;
  Tensor fused = norm_linear(c, x, w.norm("self_attention.linear_qkv.layer_norm_", layer.attention_norm),
                             w("self_attention.linear_qkv.weight"), w("self_attention.linear_qkv.bias"));
  Heads heads;
  if (a.kv_heads >= t) {
    heads = split_heads(c.tape, std::move(fused), a.kv_heads / t, per, d);
  } else {
    Tensor all = row_function(c, std::move(fused), x.size(0), t, gather_features, keep_features);
    Tensor group = slice(std::move(all), 1, 0, (per + 2) * d);
    heads = split_heads(c.tape, contiguous(std::move(group)), 1, per, d);
    heads.query = contiguous(slice(std::move(heads.query), 1, 0, parts * a.heads / t));
  }
  Tensor gate;
  if (a.gated) {
    gate = reshape(slice(heads.query, 1, a.heads / t, a.heads / t), {x.size(0) * c.token_split(), -1});
    heads.query = contiguous(slice(std::move(heads.query), 1, 0, a.heads / t));
  }
  if (a.query_norm.present())
    heads.query = norm(c, std::move(heads.query), w.norm("self_attention.q_layernorm.", a.query_norm));
  if (a.key_norm.present())
    heads.key = norm(c, contiguous(std::move(heads.key)), w.norm("self_attention.k_layernorm.", a.key_norm));
  if (a.rotary_dim > 0) {
    heads.query = rotary(c, std::move(heads.query));
    heads.key = rotary(c, std::move(heads.key));
  }
  heads.value = contiguous(std::move(heads.value));
  Tensor rows = core_attention(c, std::move(heads));
  if (gate.defined()) rows = mul(std::move(rows), sigmoid(std::move(gate)));
  return linear(c, std::move(rows), w("self_attention.linear_proj.weight"),
                w("self_attention.linear_proj.bias"), Cut::row);
}

namespace {

/// [tokens, heads, first + second] of a projection's `first` features and what all heads share.
void join_backward(Node& node, Tensors in, Tensors out) {
  Tape& tape = *node.tape;
  if (node.wants(0)) out[0] = tape.empty(node.shape, in[0].dtype(), node.name);
  if (node.wants(1)) out[1] = tape.empty({node.numbers[0], node.numbers[1]}, in[0].dtype(), node.name);
}

/// Key and value of every head out of the up projection [tokens, heads · (nope + value)] and the shared
/// rotary key [tokens, rope].
Heads join_latent(Context& c, Arg up, Arg shared, const Attention& a, std::int64_t heads) {
  Tape& tape = c.tape;
  const std::int64_t tokens = up->size(0);
  Node* node = nullptr;
  if (tape.records(up, shared)) {
    node = tape.node(kJoin, join_backward, {&*up, &*shared});
    node->shape = up->shape();
    node->numbers = {tokens, a.rope_dim};
  }
  Heads out;
  out.key = tape.empty({tokens, heads, a.nope_dim + a.rope_dim}, up->dtype(), kJoin);
  out.value = tape.empty({tokens, heads, a.value_head_dim}, up->dtype(), kJoin);
  if (tape.wants_operations())
    Work(tape, OperationKind::rotary, kJoin).in(*up).in(*shared).out(out.key).out(out.value).run();
  tape.attach(out.key, node, 0);
  tape.attach(out.value, node, 1);
  done(up, shared);
  return out;
}

/// Query, key and value from the compressed query (or the normed input) and the compressed key/value.
Heads latent_heads(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& query_input,
                   const Tensor& down) {
  const Attention& a = layer.attention;
  const std::int64_t heads = a.heads / c.tensor();
  const std::string at = "self_attention.";
  Tensor query = a.query_rank > 0
                     ? norm_linear(c, query_input, w.norm(at + "linear_q_up_proj.layer_norm_", a.query_norm),
                                   w(at + "linear_q_up_proj.weight"), {})
                     : linear(c, query_input, w(at + "linear_q_proj.weight"), {}, Cut::column);
  const Tensor compressed = slice(down, 1, 0, a.kv_rank);
  Tensor shared = slice(down, 1, a.kv_rank, a.rope_dim);
  Tensor up = norm_linear(c, compressed, w.norm(at + "linear_kv_up_proj.layer_norm_", a.key_norm),
                          w(at + "linear_kv_up_proj.weight"), {});
  if (c.sequence_parallel())
    shared = row_function(
        c, std::move(shared), up.size(0), c.tensor(),
        [](const Context& k, const Tensor& x, std::int64_t, std::int64_t n) { return gather_rows(k, x, n); },
        [](const Context& k, const Tensor& x, std::int64_t, std::int64_t n) { return reduce_rows(k, x, n); });
  Heads joined = join_latent(c, std::move(up), std::move(shared), a, heads);
  joined.query = view(std::move(query), {joined.key.size(0), heads, a.head_dim});
  return joined;
}

}  // namespace

namespace {

Tensor own_tokens(const Context& c, const Tensor& whole, std::int64_t rows, std::int64_t) {
  Shape shape = whole.shape();
  shape.size[0] = rows;
  return c.tape.alias(whole, shape);
}
Tensor all_tokens(const Context& c, const Tensor& mine, std::int64_t, std::int64_t ranks) {
  return gather_rows(c, mine, ranks);
}

/// What queries, or keys and values, are compressed to, whole on every rank for its tokens. Megatron's own
/// layers cut the features, gather them and leave the other ranks' tokens.
Tensor down_projection(Context& c, const Tensor& normed, const Tensor& weight, const Tensor& bias) {
  if (!c.local()) return linear(c, normed, weight, bias, Cut::duplicated);
  Tensor part = linear(c, normed, weight, bias, Cut::column);
  if (c.tensor() == 1) return part;
  Tensor whole = row_function(c, std::move(part), 0, c.tensor(), gather_features, keep_features);
  if (!c.sequence_parallel()) return whole;
  const std::int64_t rows = whole.size(0) / c.tensor();
  return row_function(c, std::move(whole), rows, c.tensor(), own_tokens, all_tokens);
}

}  // namespace

Tensor latent_attention(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& normed) {
  const Attention& a = layer.attention;
  const std::string at = "self_attention.";
  Tensor query_input = normed;
  if (a.query_rank > 0)
    query_input =
        down_projection(c, normed, w(at + "linear_q_down_proj.weight"), w(at + "linear_q_down_proj.bias"));
  Tensor down =
      down_projection(c, normed, w(at + "linear_kv_down_proj.weight"), w(at + "linear_kv_down_proj.bias"));
  const bool again = recomputes(c, "mla_up_proj") && c.tape.grad_enabled();
  const auto made = std::make_shared<Heads>();
  const Region up_projections = [&c, &layer, &w, made](const Tensor& q, std::span<const Tensor> others) {
    Heads heads = latent_heads(c, layer, w, q, others[0]);
    Tensor query = heads.query;
    if (!made->query.defined()) *made = std::move(heads);
    return query;
  };
  if (again)
    checkpoint(c.tape, up_projections, query_input, {down}).reset();
  else
    *made = latent_heads(c, layer, w, query_input, down);
  drop(query_input, down);
  Heads heads = std::move(*made);
  made->query = c.tape.empty({0}, c.options.dtype, 0);  // a second run keeps nothing
  const Heads kept = again ? heads : Heads{};
  Tensor rows = core_attention(c, std::move(heads));
  if (again)
    for (const Tensor* one : {&kept.query, &kept.key, &kept.value}) discard_until_backward(c, *one, rows);
  return linear(c, std::move(rows), w(at + "linear_proj.weight"), w(at + "linear_proj.bias"), Cut::row);
}

}  // namespace headroom::tape::megatron

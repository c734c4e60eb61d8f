#include <fmt/format.h>

#include <cmath>

#include "models/sharding/ranks.h"
#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/megatron/collectives.h"
#include "simulator/tape/megatron/elementary.h"
#include "simulator/tape/megatron/layer.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kRouter = operation_name("megatron::router"),
                    kRouterBackward = operation_name("RouterGatingLinearFunctionBackward"),
                    kPermute = operation_name("te::permute"),
                    kPermuteBackward = operation_name("_moe_permute_mask_mapBackward"),
                    kSort = operation_name("te::sort_chunks"), kUnpermute = operation_name("te::unpermute");

using Tensors = std::span<Tensor>;

class RouterFunction : public Function {
 public:
  explicit RouterFunction(Tensor weight) : weight_(std::move(weight)) {}
  void backward(Node& node, Tensors, Tensors out) override {
    const Tensor x = node.unpack(0);
    if (node.wants(0)) out[0] = node.tape->empty(x.shape(), x.dtype(), node.name);
    if (node.wants(1)) out[1] = node.tape->empty(weight_.shape(), weight_.dtype(), node.name);
  }

 private:
  Tensor weight_;
};

/// What stays beside the probabilities [tokens, experts] for the backward: with TransformerEngine's kernels
/// logits, softmax and the auxiliary loss' copy (fp32 each), the map of chosen experts and of rows; without
/// its kernels of permutation also the sorted map. Megatron's own code works in the model's dtype, keeps the
/// chosen experts and their scores apart, and sorts the map.
std::vector<Tensor> kept_by_router(Context& c, std::int64_t tokens, std::int64_t experts,
                                   std::int64_t chosen) {
  Tape& tape = c.tape;
  std::vector<Tensor> out;
  const auto keep = [&](std::int64_t width, DType dtype) {
    out.push_back(tape.empty({tokens, width}, dtype, kRouter));
  };
  if (!c.local()) {
    for (const DType dtype : {DType::fp32, DType::fp32, DType::fp32, DType::boolean, DType::int64})
      keep(experts, dtype);
    if (!c.options.switches.fused_permutation) {
      keep(experts, DType::int64);
      keep(chosen, DType::int64);
    }
    return out;
  }
  keep(chosen, DType::int64);
  keep(chosen, DType::fp32);
  keep(experts, c.options.dtype);
  keep(experts, DType::boolean);
  keep(experts, DType::fp32);
  keep(experts, DType::int64);
  keep(chosen, DType::int64);
  return out;
}

/// Probabilities [tokens, experts].
Tensor route(Context& c, const Tensor& x, const Tensor& weight, std::int64_t chosen) {
  Tape& tape = c.tape;
  Node* node = nullptr;
  if (tape.grad_enabled() && (x.requires_grad() || weight.requires_grad())) {
    node = tape.node(kRouterBackward, nullptr, {&x, &weight});
    node->function = std::make_unique<RouterFunction>(weight);
    tape.save(node, x);
  }
  {
    const std::vector<Tensor> kept = kept_by_router(c, x.size(0), weight.size(0), chosen);
    if (node != nullptr)
      for (const Tensor& one : kept) tape.save(node, one);
  }
  Tensor out = tape.empty({x.size(0), weight.size(0)}, c.local() ? c.options.dtype : DType::fp32, kRouter);
  if (node != nullptr) tape.save(node, out);
  if (tape.wants_operations())
    Work(tape, OperationKind::matmul, kRouter)
        .in(x)
        .in(weight)
        .out(out)
        .sizes({x.size(0), weight.size(0), x.size(1), 1})
        .flops(2.0 * static_cast<double>(x.elements()) * static_cast<double>(weight.size(0)))
        .run();
  tape.attach(out, node);
  c.routes[weight.record()] = out;
  return out;
}

/// Tokens once for each expert they go to, and their probabilities.
struct Slots {
  Tensor tokens, weights;
};

void permute_backward(Node& node, Tensors in, Tensors out) {
  Tape& tape = *node.tape;
  if (node.wants(0)) {
    out[0] = tape.empty(node.shape, in[0].dtype(), node.name);
    if (tape.wants_operations()) Work(tape, OperationKind::copy, node.name).in(in[0]).out(out[0]).run();
  }
  if (node.wants(1)) out[1] = tape.empty({node.shape[0], node.numbers[0]}, in[1].dtype(), node.name);
}

Slots permute(Context& c, const Tensor& x, Arg probabilities, std::int64_t rows) {
  Tape& tape = c.tape;
  Node* node = nullptr;
  if (tape.grad_enabled() && (x.requires_grad() || probabilities->requires_grad())) {
    node = tape.node(kPermuteBackward, permute_backward, {&x, &*probabilities});
    node->shape = x.shape();
    node->numbers[0] = probabilities->size(1);
  }
  Slots out{tape.empty({rows, x.size(1)}, x.dtype(), kPermute),
            tape.empty({rows}, probabilities->dtype(), kPermute)};
  if (tape.wants_operations()) Work(tape, OperationKind::copy, kPermute).in(x).out(out.tokens).run();
  tape.attach(out.tokens, node, 0);
  tape.attach(out.weights, node, 1);
  done(probabilities);
  return out;
}

Tensor copy_rows(const Context& c, const Tensor& from, std::int64_t rows, std::uint16_t name) {
  Shape shape = from.shape();
  shape.size[0] = rows;
  Tensor out = c.tape.empty(Shape::contiguous(shape.sizes()), from.dtype(), name);
  if (c.tape.wants_operations()) Work(c.tape, OperationKind::copy, name).in(from).out(out).run();
  return out;
}

/// An exchange of the dispatcher: beside the collective what its Python does with counts and splits.
Tensor dispatch(const Context& c, const Tensor& mine, std::int64_t rows, std::int64_t ranks) {
  if (ranks > 1) c.tape.memory().host_work(HostWork::expert_exchange, 1);
  return exchange_rows(c, mine, rows, ranks);
}
Tensor sort_rows(const Context& c, const Tensor& from, std::int64_t rows, std::int64_t) {
  return copy_rows(c, from, rows, kSort);
}
Tensor unpermute_rows(const Context& c, const Tensor& from, std::int64_t rows, std::int64_t) {
  return copy_rows(c, from, rows, kUnpermute);
}
Tensor gather(const Context& c, const Tensor& from, std::int64_t, std::int64_t ranks) {
  return gather_rows(c, from, ranks);
}
Tensor reduce(const Context& c, const Tensor& from, std::int64_t, std::int64_t ranks) {
  return reduce_rows(c, from, ranks);
}

Tensor expert_mlp(Context& c, const Layer& layer, const LayerWeights& w, Arg slots, const Tensor& weights) {
  const bool again = recomputes(c, "moe_act") && c.tape.grad_enabled();
  const bool gated = !layer.mlp.plain_experts;
  Tensor wide =
      grouped_linear(c, slots, w("mlp.experts.linear_fc1.weight"), w("mlp.experts.linear_fc1.bias"));
  Tensor active;
  if (again) {
    const Region region = [&c, gated](const Tensor& x, std::span<const Tensor> others) {
      return activation(c, x, gated, others[0]);
    };
    active = checkpoint(c.tape, region, wide, {weights});
    wide.reset();
  } else {
    active = activation(c, std::move(wide), gated, weights);
  }
  Tensor out =
      grouped_linear(c, active, w("mlp.experts.linear_fc2.weight"), w("mlp.experts.linear_fc2.bias"));
  if (again) discard_until_backward(c, active, out);
  return out;
}

/// Megatron's SequentialMLP: one local expert after the other over its part of the sorted rows, which are
/// taken to be alike; their outputs are joined.
Tensor expert_mlps(Context& c, const Layer& layer, const LayerWeights& w, Arg slots, const Tensor& weights) {
  const bool again = recomputes(c, "moe_act") && c.tape.grad_enabled();
  const bool gated = !layer.mlp.plain_experts;
  const std::int64_t experts = layer.mlp.experts / c.options.parallel.expert, rows = slots->size(0);
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < experts; ++i) counts.push_back(rows * (i + 1) / experts - rows * i / experts);
  std::vector<Tensor> parts = split(*slots, 0, counts);
  std::vector<Tensor> shares = split(weights, 0, counts);
  done(slots);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::string at = fmt::format("mlp.experts.local_experts.{}.", i);
    Tensor wide =
        linear(c, parts[i], w(at + "linear_fc1.weight"), w(at + "linear_fc1.bias"), Cut::duplicated);
    Tensor active;
    if (again) {
      const Region region = [&c, gated](const Tensor& x, std::span<const Tensor> others) {
        return activation(c, x, gated, others[0]);
      };
      active = checkpoint(c.tape, region, wide, {shares[i]});
      wide.reset();
    } else {
      active = activation(c, std::move(wide), gated, shares[i]);
    }
    outputs.push_back(
        linear(c, active, w(at + "linear_fc2.weight"), w(at + "linear_fc2.bias"), Cut::duplicated));
    if (again) discard_until_backward(c, active, outputs.back());
  }
  Tensor out = cat(outputs, 0);
  while (!outputs.empty()) outputs.pop_back();
  return out;
}

/// The local experts over rows sorted by expert.
Tensor local_experts(Context& c, const Layer& layer, const LayerWeights& w, Arg rows, const Tensor& weights) {
  return c.experts_apart() ? expert_mlps(c, layer, w, rows.pass(), weights)
                           : expert_mlp(c, layer, w, rows.pass(), weights);
}

/// Rows that arrive exceed a fair share where the router prefers this rank's experts.
std::int64_t with_imbalance(const Context& c, std::int64_t rows) {
  const double factor = c.options.parallel.expert > 1 ? c.options.switches.expert_imbalance : 1.0;
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(rows) * factor));
}

/// Dispatch by all-to-all, the local experts, and the way back.
Tensor routed_by_exchange(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x,
                          Tensor probabilities) {
  const Parallel& p = c.options.parallel;
  const std::int64_t cut = expert_tensor_of(p), sent = x.size(0) * layer.mlp.experts_per_token;
  const bool several = layer.mlp.experts > p.expert;  // local experts
  const std::int64_t received = with_imbalance(c, sent);
  Slots slots = permute(c, x, std::move(probabilities), sent);
  // The dispatcher's frames hold these two until the layer's call returns.
  const Tensor permuted = slots.tokens;
  const Tensor arrived =
      row_function(c, std::move(slots.tokens), received, p.expert, dispatch, dispatch);
  Tensor weights =
      row_function(c, std::move(slots.weights), received, p.expert, dispatch, dispatch);
  Tensor mine = arrived;
  if (cut > 1) {
    mine = row_function(c, std::move(mine), received * cut, cut, gather, reduce);
    weights = row_function(c, std::move(weights), received * cut, cut, gather, reduce);
  }
  if (several) mine = row_function(c, std::move(mine), received * cut, 1, sort_rows, sort_rows);
  Tensor out;
  if (c.local()) {
    Tensor joined = local_experts(c, layer, w, mine, weights);
    out = several ? row_function(c, joined, received * cut, 1, sort_rows, sort_rows) : joined;
    drop(mine, weights, joined);
  } else {
    out = local_experts(c, layer, w, std::move(mine), weights);
    weights.reset();
    if (several) out = row_function(c, std::move(out), received * cut, 1, sort_rows, sort_rows);
  }
  if (cut > 1) out = row_function(c, std::move(out), received, cut, reduce, gather);
  out = row_function(c, std::move(out), sent, p.expert, dispatch, dispatch);
  return row_function(c, std::move(out), x.size(0), 1, unpermute_rows, unpermute_rows);
}

/// Every rank's tokens into the process' global buffer.
Tensor gather_globally(const Context& c, const Tensor& mine, std::int64_t rows, std::int64_t) {
  Tensor whole = c.process.global_buffer({rows, mine.size(1)}, mine.dtype());
  gather_into(c, mine, whole);
  return whole;
}

/// Dispatch by all-gather: every rank has all tokens of the ranks that share the experts, takes those of its
/// own, and gives back a sum over all of them that is reduced and scattered.
Tensor routed_by_gather(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x,
                        Tensor probabilities) {
  const std::int64_t ranks = c.options.parallel.expert * expert_tensor_of(c.options.parallel);
  const std::int64_t all = x.size(0) * ranks;
  const std::int64_t rows =
      with_imbalance(c, x.size(0) * layer.mlp.experts_per_token * expert_tensor_of(c.options.parallel));
  Tensor whole = x;
  if (ranks > 1) {
    whole = row_function(c, x, all, ranks, gather_globally, reduce);
    probabilities = row_function(c, std::move(probabilities), all, ranks, gather, reduce);
  }
  Slots slots = permute(c, whole, std::move(probabilities), rows);
  whole.reset();
  Tensor out = local_experts(c, layer, w, std::move(slots.tokens), slots.weights);
  slots.weights.reset();
  out = row_function(c, std::move(out), all, 1, unpermute_rows, unpermute_rows);
  return ranks > 1 ? row_function(c, std::move(out), x.size(0), ranks, reduce, gather) : out;
}

/// DeepEP's and HybridEP's dispatch: a token goes once to each rank that has one of its experts, is repeated
/// there, and what a rank made of it comes back as one row. Their own buffers are not PyTorch's.
Tensor routed_by_flex(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x,
                      Tensor probabilities) {
  const Parallel& p = c.options.parallel;
  const auto ranks = static_cast<double>(p.expert * expert_tensor_of(p));
  const auto chosen = static_cast<double>(layer.mlp.experts_per_token);
  // Of a token's choices so many fall on one rank, when all are as likely.
  const double met = 1 - std::pow(1 - 1 / ranks, chosen);
  const std::int64_t arriving = with_imbalance(c, std::llround(static_cast<double>(x.size(0)) * ranks * met));
  const std::int64_t rows = with_imbalance(c, x.size(0) * layer.mlp.experts_per_token * expert_tensor_of(p));
  Tensor arrived = row_function(c, x, arriving, p.expert, dispatch, dispatch);
  Slots slots = permute(c, arrived, std::move(probabilities), rows);
  Tensor out = local_experts(c, layer, w, std::move(slots.tokens), slots.weights);
  drop(slots.weights, arrived);
  out = row_function(c, std::move(out), arriving, 1, unpermute_rows, unpermute_rows);
  return row_function(c, std::move(out), x.size(0), p.expert, dispatch, dispatch);
}

/// `scored`: what the router reads; `x`: what experts read.
Tensor routed(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& scored, const Tensor& x) {
  Tensor probabilities = route(c, scored, w("mlp.router.weight"), layer.mlp.experts_per_token);
  switch (c.options.switches.dispatcher) {
    case MegatronDispatcher::all_gather:
      return routed_by_gather(c, layer, w, x, std::move(probabilities));
    case MegatronDispatcher::flex:
      return routed_by_flex(c, layer, w, x, std::move(probabilities));
    case MegatronDispatcher::all_to_all:
      break;
  }
  return routed_by_exchange(c, layer, w, x, std::move(probabilities));
}

Tensor shared_expert(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x) {
  const Region region = [&c, &layer, &w](const Tensor& input, std::span<const Tensor>) {
    Tensor out = mlp(c, layer, w, "mlp.shared_experts.", {}, input);
    // The gate weighs each token's output.
    return layer.mlp.shared_gate ? mul_scalar(std::move(out)) : out;
  };
  if (recomputes(c, "shared_experts")) return checkpoint_reentrant(c.tape, c.engine, region, x, {});
  return region(x, {});
}

}  // namespace

Tensor experts(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x) {
  Tensor shared;
  if (layer.mlp.shared_hidden > 0) shared = shared_expert(c, layer, w, x);
  Tensor narrow = x;
  if (layer.mlp.latent > 0) narrow = linear(c, x, w("mlp.fc1_latent_proj.weight"), {}, Cut::duplicated);
  Tensor out = routed(c, layer, w, x, narrow);
  narrow.reset();
  if (layer.mlp.latent > 0)
    out = linear(c, std::move(out), w("mlp.fc2_latent_proj.weight"), {}, Cut::duplicated);
  if (shared.defined()) out = add(std::move(out), std::move(shared));
  return out;
}

}  // namespace headroom::tape::megatron

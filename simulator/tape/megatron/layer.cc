#include "simulator/tape/megatron/layer.h"

#include <algorithm>
#include <memory>

#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/megatron/own_attention.h"
#include "simulator/tape/operations/pointwise.h"

namespace headroom::tape::megatron {

Tensor LayerWeights::operator()(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? Tensor() : found->second;
}

NormWeights LayerWeights::norm(const std::string& prefix, const Norm& spec) const {
  return {.scale = (*this)(prefix + "weight"),
          .shift = (*this)(prefix + "bias"),
          .layer_norm = spec.kind == NormKind::layer};
}

bool recomputes(const Context& c, const char* module) {
  const Recompute& r = c.options.recompute;
  return r.kind == RecomputeKind::selective &&
         std::find(r.modules.begin(), r.modules.end(), module) != r.modules.end();
}

void discard_until_backward(Context& c, const Tensor& output, const Tensor& later) {
  if (later->producer == nullptr) return;
  Tape& tape = c.tape;
  const Bytes bytes = output->storage->bytes;
  const auto kept = std::make_shared<Tensor>(tape.alias(output, output.shape()));
  tape.shrink_storage(*kept);
  Tape::hooks(*later->producer).before.push_back([&tape, kept, bytes](std::span<Tensor>) {
    if (kept->defined()) tape.regrow_storage(*kept, bytes);
    kept->reset();
  });
}

namespace {

/// `normed`: the input after its norm, where that is a module of its own.
Tensor attention_branch(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x,
                        Tensor& normed) {
  if (layer.mixer != MixerKind::attention) return state_mixer(c, layer, w, x);
  Tensor out;
  const bool latent = layer.attention.kind == AttentionKind::latent;
  if (latent || c.local()) {
    normed = norm(c, x, w.norm("input_layernorm.", layer.attention_norm));
    out = latent ? latent_attention(c, layer, w, normed) : own_attention(c, layer, w, normed);
    if (recomputes(c, "layernorm") && c.tape.grad_enabled()) discard_until_backward(c, normed, out);
  } else {
    out = self_attention(c, layer, w, x);
  }
  if (layer.attention_post_norm.present())
    out = norm(c, std::move(out), w.norm("post_self_attn_layernorm.", layer.attention_post_norm));
  return out;
}

Tensor expert_branch(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x, Tensor& normed) {
  normed = norm(c, x, w.norm("pre_mlp_layernorm.", layer.mlp_norm));
  const Region region = [&c, &layer, &w](const Tensor& input, std::span<const Tensor>) {
    return experts(c, layer, w, input);
  };
  if (recomputes(c, "moe")) return checkpoint_reentrant(c.tape, c.engine, region, normed, {});
  Tensor out = region(normed, {});
  if (recomputes(c, "layernorm") && c.tape.grad_enabled()) discard_until_backward(c, normed, out);
  return out;
}

/// A dense MLP with its norm: the norm is part of the first product, or a module of its own, which
/// recomputing the MLP leaves out.
Tensor dense_branch(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x, Tensor& normed) {
  NormWeights fused;
  if (c.local()) {
    normed = norm(c, x, w.norm("pre_mlp_layernorm.", layer.mlp_norm));
  } else {
    fused = w.norm("mlp.linear_fc1.layer_norm_", layer.mlp_norm);
  }
  const Tensor& input = c.local() ? normed : x;
  const Region region = [&c, &layer, &w, fused](const Tensor& from, std::span<const Tensor>) {
    return mlp(c, layer, w, "mlp.", fused, from);
  };
  if (recomputes(c, "mlp")) return checkpoint_reentrant(c.tape, c.engine, region, input, {});
  Tensor out = region(input, {});
  if (c.local() && recomputes(c, "layernorm") && c.tape.grad_enabled())
    discard_until_backward(c, normed, out);
  return out;
}

Tensor mlp_branch(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x, Tensor& normed) {
  if (layer.mlp.kind == MlpKind::experts) return expert_branch(c, layer, w, x, normed);
  return dense_branch(c, layer, w, x, normed);
}

/// In evaluation mode the branch takes the residual up in place (0.13 and later).
Tensor with_residual(const Context& c, Tensor branch, const Tensor& residual) {
  if (!c.training && !c.tape.grad_enabled()) {
    add_in_place(branch, residual);
    return branch;
  }
  return add(branch, residual);
}

}  // namespace

Tensor decoder_layer(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x) {
  Tensor middle = x, normed;
  if (layer.mixer != MixerKind::none) {
    Tensor branch = attention_branch(c, layer, w, x, normed);
    middle = with_residual(c, std::move(branch), x);
  }
  normed.reset();
  if (layer.mlp.kind == MlpKind::none) return middle;
  Tensor branch = mlp_branch(c, layer, w, middle, normed);
  if (layer.mlp_post_norm.present())
    branch = norm(c, std::move(branch), w.norm("post_mlp_layernorm.", layer.mlp_post_norm));
  return with_residual(c, std::move(branch), middle);
}

}  // namespace headroom::tape::megatron

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "simulator/tape/megatron/elementary.h"
#include "simulator/tape/megatron/layer.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/state_kernels.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape::megatron {
namespace {

/// What a rank has of the mixer.
struct Part {
  std::int64_t heads, groups, values, keys;
};

Tensor repeated(const Tensor& x, std::int64_t times) {
  const std::int64_t b = x.size(0), tokens = x.size(1), groups = x.size(2), width = x.size(3);
  return reshape(expand(unsqueeze(x, 3), {b, tokens, groups, times, width}),
                 {b, tokens, groups * times, width});
}

Tensor mamba(const StateMixer& s, const Part& p, const LayerWeights& w, const Tensor& projected) {
  const Tensor none;
  const Tensor decay = neg(exp(to(w("mixer.A_log"), DType::fp32)));
  const Tensor convolution = w("mixer.conv1d.weight"), bias = w("mixer.conv1d.bias"), dt = w("mixer.dt_bias"),
               skip = w("mixer.D");
  return mamba2_combined(projected, {convolution, bias, dt, decay, skip, none, none, none},
                         {p.heads, p.groups, s.key_dim, s.value_dim, s.chunk});
}

Tensor gated_delta(const StateMixer& s, const Part& p, const LayerWeights& w, const Tensor& projected) {
  const std::int64_t b = projected.size(0), tokens = projected.size(1);
  const std::string at = "self_attention.";
  std::vector<Tensor> parts =
      split(projected, -1, std::array{2 * p.keys + p.values, p.values, p.heads, p.heads});
  Tensor mixed = causal_conv1d(contiguous(parts[0]), w(at + "conv1d.weight"), w(at + "conv1d.bias"));
  const Tensor gate = reshape(parts[1], {-1, s.value_dim});
  const Tensor beta = sigmoid(contiguous(parts[2]));
  const Tensor rate = neg(exp(to(w(at + "A_log"), DType::fp32)));
  const Tensor decay = mul(rate, softplus(add(to(parts[3], DType::fp32), w(at + "dt_bias"))));
  parts = split(mixed, -1, std::array{p.keys, p.keys, p.values});
  Tensor query = view(parts[0], {b, tokens, -1, s.key_dim}), key = view(parts[1], {b, tokens, -1, s.key_dim});
  const Tensor value = view(parts[2], {b, tokens, -1, s.value_dim});
  if (const std::int64_t times = p.heads / p.groups; times > 1) {
    query = repeated(query, times);
    key = repeated(key, times);
  }
  Tensor out = chunk_gated_delta_rule(query, key, value, decay, beta, s.chunk, nullptr);
  out = gated_rms_norm(view(std::move(out), {-1, s.value_dim}), gate, w(at + "out_norm.weight"));
  return view(std::move(out), {b, tokens, -1});
}

}  // namespace

Tensor state_mixer(Context& c, const Layer& layer, const LayerWeights& w, const Tensor& x) {
  const StateMixer& s = layer.state;
  const bool is_mamba = layer.mixer == MixerKind::mamba2;
  const std::string at = is_mamba ? "mixer." : "self_attention.";
  // Context ranks deal the heads out among them: all tokens of a share, and the result back.
  const std::int64_t context = c.options.parallel.context, cut = c.tensor() * context;
  const std::int64_t heads = s.heads / cut, groups = s.groups / cut;
  const Part part{heads, groups, heads * s.value_dim, groups * s.key_dim};
  Tensor rows = norm_linear(c, x, w.norm(at + "in_proj.layer_norm_", layer.attention_norm),
                            w(at + "in_proj.weight"), w(at + "in_proj.bias"));
  const std::int64_t tokens = rows.size(0), width = rows.size(1);
  rows = exchange(c, std::move(rows), context);
  // Packed sequences stand in one row.
  rows = view(std::move(rows), {1, tokens * context, width / context});
  Tensor out = is_mamba ? mamba(s, part, w, rows) : gated_delta(s, part, w, rows);
  rows.reset();
  out = exchange(c, view(std::move(out), {tokens, -1}), context);
  if (is_mamba) out = norm(c, std::move(out), {.scale = w("mixer.norm.weight"), .shift = {}});
  return linear(c, std::move(out), w(at + "out_proj.weight"), w(at + "out_proj.bias"), Cut::row);
}

}  // namespace headroom::tape::megatron

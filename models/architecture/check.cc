#include "models/architecture/check.h"

#include <fmt/format.h>

namespace headroom {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 56;

void check_attention(Config& config, const Attention& attention) {
  if (attention.kv_heads < 1 || attention.heads % attention.kv_heads != 0)
    config.reject("num_key_value_heads", fmt::format("expected a divisor of the {} attention heads, found {}",
                                                     attention.heads, attention.kv_heads));
  if (attention.rotary_dim > attention.head_dim)
    config.reject("rotary_dim", fmt::format("expected at most the head size {}, found {}", attention.head_dim,
                                            attention.rotary_dim));
}

void check_state(Config& config, const StateMixer& state) {
  if (state.groups < 1 || state.heads % state.groups != 0)
    config.reject(
        {"linear_num_value_heads", "mamba_num_heads"},
        fmt::format("expected a multiple of the {} groups of keys, found {}", state.groups, state.heads));
}

void check_experts(Config& config, const Mlp& mlp) {
  if (mlp.kind == MlpKind::experts && mlp.experts_per_token > mlp.experts)
    config.reject("num_experts_per_tok", fmt::format("expected at most the {} experts, found {}", mlp.experts,
                                                     mlp.experts_per_token));
}

}  // namespace

void check_sizes(Config& config, const Decoder& decoder) {
  for (const LayerGroup& group : decoder.groups) {
    if (group.layer.mixer == MixerKind::attention) check_attention(config, group.layer.attention);
    if (group.layer.state.heads > 0) check_state(config, group.layer.state);
    check_experts(config, group.layer.mlp);
  }
}

void check_counts(Config& config, const Architecture& model) {
  long double total = 0;
  for (const Tensor& tensor : model.tensors) {
    long double elements = 1;
    for (std::int64_t size : tensor.shape) elements *= static_cast<long double>(size);
    total += elements;
  }
  if (total > static_cast<long double>(kMostElements))
    config.reject("model_type", fmt::format("expected a model of at most 2^56 elements, found {:.3g}",
                                            static_cast<double>(total)));
}

}  // namespace headroom

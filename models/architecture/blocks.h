#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/architecture/config.h"
#include "models/architecture/tensor_writer.h"

/// The pieces that families share: a family's file states its defaults and its order, these do the rest.
namespace headroom {

// --- Reading ---------------------------------------------------------------------------------------------

/// What Transformers takes for a value that the config leaves out.
struct Defaults {
  std::int64_t vocabulary = 32000, hidden = 4096, intermediate = 11008, layers = 32, heads = 32;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t head_dim = 0;  ///< 0: hidden / heads
  std::int64_t max_positions = 2048;
  std::string_view activation = "silu";
  bool tied = false;
  bool attention_bias = false;
};

/// Vocabulary, hidden, layers, positions, tying and an RMS final norm, under the common key names; no layers
/// yet.
Decoder read_decoder(Config& config, const Defaults& defaults);

/// Separate projections with heads, kv_heads, head_dim and full rotary positions, under the common key names.
/// `attention_bias` gives biases to all four projections.
Attention read_attention(Config& config, const Defaults& defaults, std::int64_t hidden);

/// `intermediate_size` and `hidden_act` of a gated MLP.
Mlp read_gated_mlp(Config& config, const Defaults& defaults);

/// The three above with RMS norms before both branches: LLaMA's layer.
Layer read_layer(Config& config, const Defaults& defaults, std::int64_t hidden);

/// `hidden` / `heads`; an error at hidden_size when it does not divide.
std::int64_t default_head_dim(Config& config, std::int64_t hidden, std::int64_t heads);

/// The rotated part of a head: `partial_rotary_factor` (or `rotary_pct`), at the top or under
/// `rope_parameters`.
std::int64_t read_rotary_dim(Config& config, std::int64_t head_dim, double fallback);

/// The expert sizes that every family with routed experts has; shared experts are the family's own.
struct ExpertDefaults {
  std::int64_t experts, experts_per_token, hidden;
  bool normalized = false;
};
Mlp read_experts(Config& config, Key experts, Key hidden, const ExpertDefaults& defaults,
                 std::string_view activation);

Norm rms_norm(std::int64_t size);
Norm layer_norm(std::int64_t size, bool bias = true);

/// One group of equal layers.
std::vector<LayerGroup> equal_layers(std::int64_t count, const Layer& layer);

/// Groups of equal neighbours among `count` layers, each given by `layer(index)`.
template <typename Make>
std::vector<LayerGroup> grouped_layers(std::int64_t count, Make layer) {
  std::vector<LayerGroup> groups;
  for (std::int64_t i = 0; i < count; ++i) {
    Layer next = layer(i);
    if (!groups.empty() && groups.back().layer == next) {
      ++groups.back().count;
    } else {
      groups.push_back({.first = i, .count = 1, .layer = std::move(next)});
    }
  }
  return groups;
}

// --- Writing ---------------------------------------------------------------------------------------------

/// `q_proj, k_proj, v_proj, o_proj` (the last may be called otherwise), then `q_norm, k_norm` when present.
void write_attention(TensorWriter& out, std::string_view module, const Attention& attention,
                     std::string_view output = "o_proj");

/// `gate_proj, up_proj, down_proj`, or `gate_up_proj, down_proj` when fused.
void write_gated_mlp(TensorWriter& out, std::string_view module, const Mlp& mlp);

/// `gate_up_proj` and `down_proj` of all experts, stacked: [experts, 2·hidden, in] and [experts, in, hidden].
void write_experts(TensorWriter& out, std::string_view module, const Mlp& mlp);

/// The two frequency tables that a rotary embedding keeps in fp32: in use, and as computed first.
void write_rotary(TensorWriter& out, std::string_view module, const Decoder& decoder);

/// Two linears with these names.
void write_plain_mlp(TensorWriter& out, std::string_view up, std::string_view down, const Mlp& mlp);

/// A model in LLaMA's frame: `model.embed_tokens`, `model.layers` as `layer` writes them, `model.norm`,
/// `lm_head`.
template <typename WriteLayer>
void write_llama_frame(TensorWriter& out, WriteLayer layer) {
  const Decoder& decoder = out.decoder();
  out.embedding("model.embed_tokens", decoder.vocabulary, decoder.hidden);
  out.layers("model.layers", layer);
  out.norm("model.norm", decoder.final_norm);
  write_rotary(out, "model.rotary_emb", decoder);
  out.head("lm_head", "model.embed_tokens.weight", decoder.hidden);
}

/// LLaMA's layer: `self_attn`, `mlp`, `input_layernorm`, `post_attention_layernorm`.
void write_llama_layer(TensorWriter& out, const Layer& layer);

/// LLaMA's whole model: sizes as they are read, and what it writes.
void describe_llama(Config& config, Architecture& model);
void write_llama(TensorWriter& out);

/// LLaMA's whole model with a router and experts in place of each layer's MLP.
void write_llama_of_experts(TensorWriter& out);

}  // namespace headroom

#pragma once

#include <cstdint>

#include "models/architecture/architecture.h"
#include "models/architecture/blocks.h"
#include "models/architecture/config.h"
#include "models/architecture/tensor_writer.h"

namespace headroom {

/// Defaults of DeepSeek's sparse models beyond the common ones.
struct DeepseekDefaults {
  std::int64_t dense_layers;  ///< leading layers with a dense MLP
  std::int64_t experts;
  std::int64_t experts_per_token;  ///< 0: the config must say
  std::int64_t expert_hidden;
  std::int64_t shared_experts;
  bool normalized = false;
  std::int64_t expert_groups = 0, open_groups = 0;
};

/// Multi-head latent attention in every layer; a dense MLP in the first layers, routed and shared experts
/// after.
void describe_deepseek(Config& config, Architecture& model, const Defaults& defaults,
                       const DeepseekDefaults& deepseek);

/// Puts `layer` everywhere, with its dense MLP in the first layers, and routed and shared experts after.
void place_deepseek_experts(Config& config, Decoder& decoder, const Layer& layer, const Defaults& defaults,
                            const DeepseekDefaults& deepseek);

struct DeepseekNames {
  bool router_linear;      ///< V2's router is a Linear; V3's is a bare parameter
  bool router_correction;  ///< V3 keeps a correction for each expert, in fp32, as a buffer
};
void write_deepseek(TensorWriter& out, const DeepseekNames& names);
/// A layer's MLP, dense or sparse, alone.
void write_deepseek_mlp(TensorWriter& out, const Mlp& mlp, const DeepseekNames& names);

}  // namespace headroom

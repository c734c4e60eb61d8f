#pragma once

#include <cstdint>
#include <string_view>

#include "models/architecture/architecture.h"
#include "models/architecture/config.h"
#include "models/architecture/tensor_writer.h"

/// Mixers that keep a state: their keys and their tensors.
namespace headroom {

/// Gated DeltaNet under Qwen's keys (`linear_num_value_heads`, `linear_key_head_dim`, …).
StateMixer read_gated_delta(Config& config, std::int64_t value_heads);

/// Mamba 2 under Nemotron-H's keys (`mamba_num_heads`, `ssm_state_size`, …). With `mamba_proj_bias` no public
/// model: refused.
StateMixer read_mamba2(Config& config);

/// Puts the mixer in attention's place.
void replace_attention(Layer& layer, MixerKind kind, const StateMixer& state);

/// `dt_bias, A_log, conv1d`, then the projections and the norm: in Qwen3-Next's order with two projections in
/// front, in Qwen3.5's with four behind.
void write_gated_delta(TensorWriter& out, std::string_view module, const StateMixer& state);

/// `dt_bias, A_log, D, conv1d, in_proj, norm, out_proj`.
void write_mamba2(TensorWriter& out, std::string_view module, const StateMixer& state);

}  // namespace headroom

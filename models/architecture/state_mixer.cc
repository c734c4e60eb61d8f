#include "models/architecture/state_mixer.h"

#include <string>

#include "models/architecture/blocks.h"

namespace headroom {
namespace {

/// Numbers that stand for themselves in the module: no linear, no norm; cut with the heads.
void write_own(TensorWriter& out, const std::string& name, std::int64_t size) {
  out.parameter(name, {size}, TensorRole::other, Split::column);
}

void write_convolution(TensorWriter& out, const std::string& at, const StateMixer& state) {
  out.parameter(at + "conv1d.weight", {state.channels(), 1, state.kernel}, TensorRole::other, Split::column);
  if (state.convolution_bias) write_own(out, at + "conv1d.bias", state.channels());
}

DType read_cached(Config& config, Key key, DType fallback) {
  const std::string word = config.text(key, "");
  if (word.empty()) return fallback;
  const auto dtype = parse_dtype(word);
  if (!dtype) config.reject(key, "expected a dtype such as float32, found " + word.substr(0, 80));
  return dtype.value_or(fallback);
}

}  // namespace

StateMixer read_gated_delta(Config& config, std::int64_t value_heads) {
  StateMixer state;
  state.heads = config.size("linear_num_value_heads", value_heads);
  state.groups = config.size("linear_num_key_heads", 16);
  state.key_dim = config.size("linear_key_head_dim", 128);
  state.value_dim = config.size("linear_value_head_dim", 128);
  state.kernel = config.size("linear_conv_kernel_dim", 4);
  state.cached = read_cached(config, "mamba_ssm_dtype", DType::bf16);
  state.norm = rms_norm(state.value_dim);
  return state;
}

StateMixer read_mamba2(Config& config) {
  StateMixer state;
  state.heads = config.size("mamba_num_heads", 128);
  state.groups = config.size({"n_groups", "mamba_num_groups", "mamba_n_groups"}, 8);
  state.key_dim = config.size({"ssm_state_size", "mamba_state_dim"}, 128);
  state.value_dim = config.size("mamba_head_dim", 64);
  state.kernel = config.size({"conv_kernel", "mamba_d_conv"}, 4);
  state.chunk = config.size({"chunk_size", "mamba_chunk_size"}, 128);
  state.convolution_bias = config.flag({"use_conv_bias", "mamba_conv_bias"}, true);
  state.projection_bias = config.flag("use_bias", false);
  if (config.flag("mamba_proj_bias", false))
    config.reject("mamba_proj_bias", "expected false, as in all public models");
  state.fused_projection = true;
  state.cached = read_cached(config, "mamba_ssm_cache_dtype", DType::fp32);
  state.norm = rms_norm(state.values());
  return state;
}

void replace_attention(Layer& layer, MixerKind kind, const StateMixer& state) {
  layer.mixer = kind;
  layer.attention = {};
  layer.state = state;
}

void write_gated_delta(TensorWriter& out, std::string_view module, const StateMixer& state) {
  const std::int64_t hidden = out.decoder().hidden;
  const std::string at = std::string(module) + ".";
  write_own(out, at + "dt_bias", state.heads);
  write_own(out, at + "A_log", state.heads);
  write_convolution(out, at, state);
  if (state.fused_projection) {
    out.linear(at + "in_proj_qkvz", state.channels() + state.values(), hidden, Split::column);
    out.linear(at + "in_proj_ba", 2 * state.heads, hidden, Split::column);
  }
  out.norm(at + "norm", state.norm);
  out.linear(at + "out_proj", hidden, state.values(), Split::row);
  if (state.fused_projection) return;
  out.linear(at + "in_proj_qkv", state.channels(), hidden, Split::column);
  out.linear(at + "in_proj_z", state.values(), hidden, Split::column);
  out.linear(at + "in_proj_b", state.heads, hidden, Split::column);
  out.linear(at + "in_proj_a", state.heads, hidden, Split::column);
}

void write_mamba2(TensorWriter& out, std::string_view module, const StateMixer& state) {
  const std::int64_t hidden = out.decoder().hidden;
  const std::string at = std::string(module) + ".";
  write_own(out, at + "dt_bias", state.heads);
  write_own(out, at + "A_log", state.heads);
  write_own(out, at + "D", state.heads);
  write_convolution(out, at, state);
  out.linear(at + "in_proj", state.values() + state.channels() + state.heads, hidden, Split::column,
             state.projection_bias);
  out.parameter(at + "norm.weight", {state.norm.size}, TensorRole::norm, Split::column);
  out.linear(at + "out_proj", hidden, state.values(), Split::row, state.projection_bias);
}

}  // namespace headroom

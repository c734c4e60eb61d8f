#include "simulator/engine/profile.h"

#include <algorithm>

namespace headroom::engine {
namespace {

/// Where the fused kernels run longer batches in chunks, of so many tokens (vLLM's VLLM_FUSED_MOE_CHUNK_SIZE).
constexpr std::int64_t kExpertChunk = 32768;

/// Of activations: fp32 models compute in fp32, all others in 16 bits.
DType computed(const Engine& engine) {
  return engine.weights == DType::fp32 ? DType::fp32 : DType::bf16;
}

/// Hidden state and residual that a stage of a pipeline receives and sends.
Bytes boundary(const Engine& engine, const ModelSizes& sizes, std::int64_t tokens) {
  return sizes.stage.of == 1 ? 0 : bytes_of(computed(engine), 2 * tokens * sizes.hidden);
}

/// A vision tower's widest moment, before the decoder runs: as a layer's. Recordings of fixed-size towers do not reach
/// the sampler's.
Bytes tower_peak(const Engine& engine, const ModelSizes& sizes) {
  const std::int64_t mlp = ceil_div(sizes.tower_mlp, engine.tensor);
  return bytes_of(computed(engine), sizes.image_patches * (mlp + 4 * sizes.tower_hidden));
}

}  // namespace

Bytes forward_peak(const Engine& engine, const ModelSizes& sizes, std::int64_t tokens) {
  const std::int64_t mlp = ceil_div(sizes.mlp_hidden, engine.tensor);
  const std::int64_t copies = sizes.gated ? 3 : 2;  // gate, up and their product; or the product and its input
  const Bytes layer = bytes_of(computed(engine), tokens * (copies * mlp + engine.hidden_copies * sizes.hidden));
  const bool narrow = engine.weights == DType::fp8 || engine.weights == DType::int8;
  return layer + (narrow ? tokens * mlp : 0) + boundary(engine, sizes, tokens);
}

Bytes sampler_peak(const Engine& engine, const ModelSizes& sizes, const Host& host, std::int64_t tokens,
                   std::int64_t rows) {
  const Bytes row = bytes_of(DType::fp32, sizes.vocabulary);
  // Models in fp32 make no narrower copy of the logits.
  const double narrow = computed(engine) == DType::fp32 ? 0.5 : 0;
  const double copies = engine.sampler_rows_factor - narrow + (engine.processed_logprobs ? 1 : 0);
  return static_cast<Bytes>(copies * static_cast<double>(rows * row)) +
         (engine.sampler_scratch ? host.multiprocessors * row : 0) +
         bytes_of(computed(engine), (tokens + rows) * sizes.hidden) + boundary(engine, sizes, tokens);
}

Bytes expert_workspace(const Engine& engine, const ModelSizes& sizes, std::int64_t tokens) {
  const bool mxfp4 = engine.weights == DType::fp4 && engine.model->family == "gpt_oss";
  if (sizes.experts_per_token == 0 || mxfp4) return 0;
  const std::int64_t at_once = engine.chunks_experts ? std::min(tokens, kExpertChunk) : tokens;
  const std::int64_t rows = at_once * sizes.experts_per_token;
  const std::int64_t first = (sizes.gated_experts ? 2 : 1) * sizes.expert_hidden;
  return bytes_of(computed(engine), rows * (std::max(sizes.expert_hidden, sizes.expert_width) +
                                            std::max(first, sizes.expert_width)));
}

Bytes kept_workspaces(const Engine& engine, const ModelSizes& sizes, const Host& host, std::int64_t tokens) {
  return host.cublas_workspace + (engine.keeps_expert_workspace ? expert_workspace(engine, sizes, tokens) : 0);
}

Bytes activation_peak(const Engine& engine, const ModelSizes& sizes, const Host& host, std::int64_t tokens,
                      std::int64_t rows) {
  tokens = std::min(tokens, engine.max_batched_tokens);
  rows = std::min({rows, engine.max_sequences, engine.max_batched_tokens});
  const Bytes experts = expert_workspace(engine, sizes, tokens);
  const Bytes forward = forward_peak(engine, sizes, tokens) + experts;
  const Bytes sampling = !sizes.stage.last() ? 0
                                             : sampler_peak(engine, sizes, host, tokens, rows) +
                                                   (engine.keeps_expert_workspace ? experts : 0);
  return std::max({forward, sampling, tower_peak(engine, sizes)}) + host.cublas_workspace + sizes.image_bytes;
}

}  // namespace headroom::engine

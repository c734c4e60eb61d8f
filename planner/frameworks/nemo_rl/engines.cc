#include <algorithm>

#include "models/architecture/stacked_experts.h"
#include "planner/frameworks/engines/facts.h"
#include "planner/frameworks/nemo_rl/job.h"

namespace headroom::nemo_rl {
namespace {

/// Share of the free memory that a refit's two staging buffers take where nothing says their size; of the
/// whole memory, up to 5 GiB, where weights go to other GPUs, twice for the pieces and their concatenation.
constexpr double kRefitShare = 0.3, kBroadcastShare = 0.02;
constexpr Bytes kMostBroadcast = 5 * kGiB;
/// What a process has besides tensors when a refit asks: context, communicators, workspaces.
constexpr Bytes kProcess = 2 * kGiB + kGiB / 2;

/// All experts of a layer (Tensor::expert).
constexpr std::int32_t kStacked = -2;

/// Of those that are sent. Megatron's and Automodel's workers send experts as the checkpoint has them; the first
/// DTensor worker its own state dict.
Bytes largest_tensor(const Policy& policy) {
  const Architecture& model = *policy.architecture;
  const bool apart = (policy.runs_megatron() || policy.dtensor.second) && !has_stacked_checkpoint(model);
  std::int64_t most = 0;
  for (const Tensor& tensor : model.tensors)
    most = std::max(most, apart && tensor.expert == kStacked ? tensor.count() / tensor.shape.front() : tensor.count());
  return bytes_of(DType::bf16, most);
}

Bytes trainer_weights(const Settings& s) {
  const std::int64_t all = s.policy.architecture->parameters();
  if (!s.policy.runs_megatron()) return bytes_of(DType::fp32, all) / s.train_gpus();
  const Megatron& m = s.policy.megatron;
  return bytes_of(DType::bf16, all) / (m.tensor * m.pipeline);
}

/// Both staging buffers of the trainer.
Bytes staging(const Settings& s, const Engine& engine) {
  const Bytes largest = largest_tensor(s.policy);
  if (s.separate()) {
    const Bytes card = s.card > 0 ? s.card : 80 * kGiB;
    const auto share = static_cast<Bytes>(kBroadcastShare * static_cast<double>(card));
    return 4 * (std::min(share, kMostBroadcast) + largest);
  }
  if (s.policy.refit_buffer_gb > 0)
    return static_cast<Bytes>(s.policy.refit_buffer_gb * static_cast<double>(kGiB));
  if (s.card == 0) return 2 * largest;
  const Bytes served =
      bytes_of(engine.weights, engine.model->parameters()) / (engine.tensor * engine.pipeline);
  const Bytes free = std::max<Bytes>(0, s.card - trainer_weights(s) - served - 2 * kProcess);
  return static_cast<Bytes>(kRefitShare * static_cast<double>(free));
}

}  // namespace

std::vector<Engine> make_engines(const Settings& s) {
  if (!s.generates()) return {};
  const Generation& g = s.policy.generation;
  Engine out;
  out.name = "rollout";
  out.kind = g.backend == "sglang" ? EngineKind::sglang : EngineKind::vllm;
  out.role = "actor";
  out.model_name = s.policy.model;
  out.model = s.policy.architecture;
  out.tensor = g.backend == "sglang" ? g.sglang_tensor : g.tensor;
  out.pipeline = g.pipeline;
  // Experts are dealt out over data-parallel engines of the tensor size each.
  out.data = std::max<std::int64_t>(1, g.expert / std::max<std::int64_t>(1, out.tensor));
  out.expert = g.expert;
  const DType type =
      parse_dtype(g.precision == "fp8" ? s.policy.precision : g.precision).value_or(DType::bf16);
  out.weights = g.precision == "fp8" ? DType::fp8 : type;
  out.kv = g.kv_cache_dtype.starts_with("fp8") ? DType::fp8 : type;
  out.utilization = g.backend == "sglang" ? g.sglang_fraction : g.utilization;
  out.kv_bytes = g.kv_cache_memory_bytes;
  out.blocks_override = g.blocks_override;
  out.max_length = g.max_model_len;
  const std::string vllm = s.versions.vllm.empty() ? "0.20.0" : s.versions.vllm;
  // Workers of an engine on several GPUs are Ray's.
  engines::set_release(out, out.kind == EngineKind::sglang ? s.versions.sglang : vllm,
                       {.through_ray = out.tensor * out.pipeline > 1});
  if (g.block_size) out.block_size = *g.block_size;
  // NeMo RL leaves sequences and tokens to the engine.
  const engines::Limits limits = engines::default_limits(
      out, settings::card_of(s),
      g.async_engine ? engines::EntryPoint::bare : engines::EntryPoint::library);
  out.max_sequences = g.max_num_seqs.value_or(limits.sequences);
  out.max_batched_tokens = g.max_num_batched_tokens.value_or(limits.batched_tokens);
  out.graphs = !g.enforce_eager;
  out.processed_logprobs = true;
  out.sleep_level = s.separate() ? 0 : 1;
  out.sync.kind = WeightExport::per_tensor;
  // Gathered in the policy's precision, whatever the engine serves in.
  out.sync.dtype = s.policy.compute_type();
  out.sync.bucket = staging(s, out);
  out.sync.every_rank = true;
  return {out};
}

}  // namespace headroom::nemo_rl

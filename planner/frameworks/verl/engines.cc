#include <algorithm>
#include <array>

#include "planner/frameworks/engines/facts.h"
#include "planner/frameworks/verl/job.h"

namespace headroom::verl {
namespace {

/// Ranks that vLLM accepts for adapters; others are rounded up.
constexpr std::array<std::int64_t, 9> kLoraRanks = {1, 8, 16, 32, 64, 128, 256, 320, 512};

std::int64_t served_rank(std::int64_t rank) {
  const auto at = std::lower_bound(kLoraRanks.begin(), kLoraRanks.end(), rank);
  return at == kLoraRanks.end() ? rank : *at;
}

/// Facts of the release that serves. verl's images hold FlashInfer, whose sampler old releases use.
void set_facts(Engine& engine, const Settings& s) {
  const bool vllm = engine.kind == EngineKind::vllm;
  const Version release = parse_version(s.versions.vllm).value_or(Version{0, 24, 0});
  engines::set_release(engine, vllm ? s.versions.vllm : s.versions.sglang,
                       {.flashinfer_sampler = vllm && release < Version{0, 9, 0},
                        .first_engine = vllm && s.first_engine && release < Version{0, 11, 0}});
  if (vllm && s.graph_estimate) engine.graphs_in_budget = *s.graph_estimate;
}

/// What the engine serves and how large it may get; the same keys for rollout and reward engines.
Engine base(const Settings& s, const EngineSettings& e) {
  Engine out;
  out.kind = e.name == "hf"     ? EngineKind::transformers
             : e.name == "vllm" ? EngineKind::vllm
                                : EngineKind::sglang;
  out.tensor = e.tensor;
  out.pipeline = e.pipeline;
  out.data = e.data;
  out.expert = e.expert;
  out.weights = e.quantization.find("fp8") != std::string::npos ? DType::fp8 : e.dtype;
  out.kv = e.kv_cache_dtype.rfind("fp8", 0) == 0 ? DType::fp8 : e.dtype;
  out.utilization = e.gpu_memory_utilization;
  out.kv_bytes = e.kv_cache_memory_bytes;
  out.blocks_override = e.num_gpu_blocks_override;
  out.max_sequences = e.max_num_seqs;
  out.max_batched_tokens = e.max_num_batched_tokens;
  out.graphs = !e.enforce_eager;
  out.capture_sizes = e.capture_sizes;
  out.processed_logprobs = e.calculate_log_probs;
  out.host_swap = static_cast<Bytes>(e.swap_space_gib * static_cast<double>(kGiB));
  (void)s;
  return out;
}

/// The context length: prompt + response in old releases, the model's maximum in 0.7.0 whatever is set.
std::int64_t rollout_length(const Settings& s) {
  const EngineSettings& e = s.rollout;
  if (!s.after(0, 7, 0)) return e.max_model_len.value_or(e.prompt_length + e.response_length);
  if (!s.after(0, 7, 1)) return 0;
  return e.max_model_len.value_or(0);
}

int rollout_sleep_level(const Settings& s) {
  const EngineSettings& e = s.rollout;
  if (!e.free_cache_engine || !e.enable_sleep_mode || e.nodes > 0) return 0;
  // SGLang backs its weights up on the host since 0.9.
  if (e.name != "vllm") return s.after(0, 9, 0) ? 1 : 2;
  if (!s.after(0, 6, 0)) return 1;
  const Version vllm = parse_version(s.versions.vllm).value_or(Version{0, 24, 0});
  if (!s.after(0, 7, 1) && (vllm < Version{0, 8, 5} || e.layered_summon)) return 1;
  return s.serves_adapters() ? 1 : 2;
}

WeightSync rollout_sync(const Settings& s) {
  const Worker& a = s.actor;
  WeightSync out;
  const bool fsdp1 = a.strategy == Strategy::fsdp;
  if (s.serves_adapters()) {
    out.adapters_only = true;
    if (s.rollout.layered_summon) {
      out.kind = WeightExport::layers;
    } else if (fsdp1) {
      out.kind = WeightExport::full_parameters;
    }
  } else if (fsdp1) {
    out.kind = WeightExport::sharded_state_dict;
  }
  // An engine in the trainer's own process copies tensor by tensor, without a buffer.
  out.bucket = s.rollout.sync_mode ? 0 : s.rollout.bucket_megabytes * kMiB;
  const bool cast = (s.after(0, 8, 0) && !s.after(0, 9, 0)) || (a.lora.rank > 0 && a.lora.merge);
  const bool megatron = a.strategy == Strategy::megatron;
  out.dtype = cast || megatron ? DType::bf16 : a.fsdp.model_dtype.value_or(DType::fp32);
  return out;
}

Engine rollout_engine(const Settings& s) {
  const EngineSettings& e = s.rollout;
  Engine out = base(s, e);
  out.name = "rollout";
  out.role = "actor";
  out.model_name = s.actor.model.path;
  out.model = s.actor.model.architecture;
  out.max_length = rollout_length(s);
  out.sleep_level = rollout_sleep_level(s);
  out.sleep_keeps_weights = out.kind == EngineKind::sglang && s.serves_adapters();
  out.sync = rollout_sync(s);
  if (s.serves_adapters()) {
    out.lora_slots = 1;
    out.lora_rank = served_rank(s.actor.lora.rank);
  }
  set_facts(out, s);
  if (e.block_size) out.block_size = *e.block_size;
  return out;
}

/// An engine that scores what the actor wrote: a reward model, or a teacher.
Engine scoring_engine(const Settings& s, const EngineSettings& e, const std::string& name, const std::string& path,
                      const std::shared_ptr<const Architecture>& model) {
  Engine out = base(s, e);
  out.name = name;
  out.role.clear();
  out.model_name = path;
  out.model = model;
  out.max_length = e.max_model_len.value_or(e.prompt_length + e.response_length);
  // Weights are kept on the host while it sleeps; GPUs of its own let it stay awake.
  out.sleep_level = e.free_cache_engine && e.nodes == 0 ? 1 : 0;
  set_facts(out, s);
  if (e.block_size) out.block_size = *e.block_size;
  return out;
}

}  // namespace

std::vector<Engine> make_engines(const Settings& s) {
  std::vector<Engine> engines{rollout_engine(s)};
  if (s.reward_engine.exists)
    engines.push_back(scoring_engine(s, s.reward_engine, "reward", s.reward_model_path, s.reward_model));
  for (const Teacher& teacher : s.teachers)
    engines.push_back(scoring_engine(s, teacher.engine, teacher.name, teacher.path, teacher.model));
  return engines;
}

}  // namespace headroom::verl

#include <fmt/format.h>

#include <array>

#include "planner/frameworks/verl/sections.h"
#include "planner/frameworks/verl/settings_reader.h"

namespace headroom::verl {
namespace {

/// Arguments that change an engine's memory and have no mechanism here.
struct Unmodelled {
  const char* argument;
  const char* what;
  bool decides;  ///< by so much that a verdict would be a guess
};
constexpr std::array kVllmUnmodelled = {
    Unmodelled{"speculative_config", "a draft model beside the served one", true},
    Unmodelled{"kv_transfer_config", "KV cache moved between engines", true},
    Unmodelled{"compilation_config", "graph modes and sizes stated here", false},
    Unmodelled{"limit_mm_per_prompt", "the images that the start-up profile takes", false},
    Unmodelled{"mamba_cache_dtype", "the state cache of recurrent layers", false},
    Unmodelled{"mamba_ssm_cache_dtype", "the state cache of recurrent layers", false},
    Unmodelled{"enable_dbo", "a second expert workspace for overlapped batches", false},
};
constexpr std::array kSglangUnmodelled = {
    Unmodelled{"speculative_algorithm", "a draft model beside the served one", true},
    Unmodelled{"enable_hierarchical_cache", "KV cache on the host", false},
    Unmodelled{"hicache_ratio", "KV cache on the host", false},
    Unmodelled{"mamba_full_memory_ratio", "the state cache of recurrent layers", false},
};

/// Calls `open` for arguments that leave the verdict open, warns of the others.
template <typename Table, typename Decides>
void tell_unmodelled(Values& values, const std::string& at, const Table& table, const Decides& open) {
  for (const auto& [argument, what, decides] : table) {
    if (!values.given(at + argument)) continue;
    if (decides) {
      open(at + argument, what);
    } else {
      values.warn_at(at + argument, fmt::format("{}: its memory is missing from the prediction", what));
    }
  }
}

}  // namespace

void SettingsReader::rollout() {
  EngineSettings& e = s_.rollout;
  e.exists = true;
  const bool mandatory = s_.after(0, 6, 0);  // an override can delete the key
  if (s_.after(0, 5, 0)) {
    e.name = v_.word(kRollout + "name", {"vllm", "sglang", "trtllm", "hf", "dynamo"}, mandatory ? "" : "vllm");
  } else {
    // SGLang in a server of its own was a name of its own.
    e.name = v_.word(kRollout + "name", {"vllm", "sglang", "sglang_async", "hf"}, "vllm");
    if (e.name == "sglang_async") e.name = "sglang";
  }
  if (e.name.empty()) v_.fail_at(kRollout + "name", "is mandatory and not set; give a value");
  if (e.name == "hf") not_modelled(kRollout + "name", "generation inside FSDP (rollout.name=hf)");
  if (e.name == "trtllm") not_modelled(kRollout + "name", "TensorRT-LLM");
  if (e.name == "dynamo") not_modelled(kRollout + "name", "NVIDIA Dynamo's workers");
  const std::string mode = v_.word(kRollout + "mode", {"sync", "async"}, "async");
  e.sync_mode = mode == "sync" && !s_.after(0, 7, 0) && e.name == "vllm";
  e.dtype = v_.dtype(kRollout + "dtype", DType::bf16);
  e.gpu_memory_utilization = fraction(kRollout + "gpu_memory_utilization", 0.5);
  e.tensor = v_.integer(kRollout + "tensor_model_parallel_size", 1, kMost, 2);
  e.data = v_.integer(kRollout + "data_parallel_size", 1, kMost, 1);
  e.expert = v_.integer(kRollout + "expert_parallel_size", 1, kMost, 1);
  e.pipeline = v_.integer(kRollout + "pipeline_model_parallel_size", 1, kMost, 1);
  e.enforce_eager = v_.flag(kRollout + "enforce_eager");
  e.chunked_prefill = v_.flag(kRollout + "enable_chunked_prefill", true);
  e.capture_sizes = v_.integers(kRollout + "cudagraph_capture_sizes", 1);
  e.free_cache_engine = v_.flag(kRollout + "free_cache_engine", true);
  e.enable_sleep_mode = v_.flag(kRollout + "enable_sleep_mode", true);
  e.max_num_seqs = v_.integer(kRollout + "max_num_seqs", 1, kMost, 256);
  e.max_num_batched_tokens = v_.integer(kRollout + "max_num_batched_tokens", 1, kMost, 8192);
  e.max_model_len = v_.optional_integer(kRollout + "max_model_len", 1, kMost);
  e.prompt_length = v_.integer(kRollout + "prompt_length", 1, kMost, s_.prompt_length);
  e.response_length = v_.integer(kRollout + "response_length", 1, kMost, s_.response_length);
  e.load_format = covered(kRollout + "load_format", kLoadFormats, "dummy");
  e.quantization = covered(kRollout + "quantization", kQuantizations);
  e.layered_summon = v_.flag(kRollout + "layered_summon");
  e.calculate_log_probs = v_.flag(kRollout + "calculate_log_probs", true);
  e.bucket_megabytes =
      s_.after(0, 7, 1)
          ? v_.integer(kRollout + "checkpoint_engine.update_weights_bucket_megabytes", 1, kMost, 2048)
          : v_.integer(kRollout + "update_weights_bucket_megabytes", 1, kMost, 512);
  e.nodes = v_.integer(kRollout + "nnodes", 0, 1'000'000, 0);
  e.gpus_per_node = v_.integer(kRollout + "n_gpus_per_node", 0, 1024, s_.gpus_per_node);
  if (e.name == "sglang") {
    sglang_arguments(e);
  } else {
    vllm_arguments(e);
  }
  const std::string estimate = variable("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS");
  if (!estimate.empty()) s_.graph_estimate = estimate != "0";
  // Engines from 0.8 to 0.10 fall back to the first for the backend that the second lacks.
  s_.first_engine = variable("VLLM_USE_V1") == "0" || variable("VLLM_ATTENTION_BACKEND") == "XFORMERS";
}

double SettingsReader::fraction(const std::string& key, double fallback) {
  const double value = v_.number(key, 0, 1, fallback);
  if (value <= 0) v_.fail_at(key, fmt::format("expected a fraction above 0 and at most 1, found {}", value));
  return value;
}

void SettingsReader::vllm_arguments(EngineSettings& e) {
  const std::string at = kRollout + "engine_kwargs.vllm.";
  for (const char* argument :
       {"gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "enforce_eager"})
    if (v_.given(at + argument)) e.passed_through.insert(argument);
  if (v_.given(at + "gpu_memory_utilization"))
    e.gpu_memory_utilization = fraction(at + "gpu_memory_utilization", 0.5);
  e.kv_cache_dtype = covered(at + "kv_cache_dtype", kCacheTypes);
  e.kv_cache_memory_bytes = v_.optional_integer(at + "kv_cache_memory_bytes", 1, std::int64_t{1} << 50);
  e.num_gpu_blocks_override = v_.optional_integer(at + "num_gpu_blocks_override", 1, kMost);
  e.block_size = v_.optional_integer(at + "block_size", 1, 4096);
  e.swap_space_gib = v_.number(at + "swap_space", 0, 1e6, 0);
  // Blocks that are offloaded lie on the host, the size stated for all ranks together.
  if (v_.given(at + "kv_offloading_size"))
    e.swap_space_gib += v_.number(at + "kv_offloading_size", 0, 1e6, 0) / static_cast<double>(e.tensor);
  e.max_num_seqs = v_.integer(at + "max_num_seqs", 1, kMost, e.max_num_seqs);
  e.max_num_batched_tokens = v_.integer(at + "max_num_batched_tokens", 1, kMost, e.max_num_batched_tokens);
  if (const auto length = v_.optional_integer(at + "max_model_len", 1, kMost)) e.max_model_len = length;
  e.enforce_eager = v_.flag(at + "enforce_eager", e.enforce_eager);
  if (v_.given(at + "enable_expert_parallel") && v_.flag(at + "enable_expert_parallel"))
    e.expert = e.tensor * e.data;
  tell_unmodelled(v_, at, kVllmUnmodelled, [this](auto key, auto what) { not_modelled(key, what); });
}

void SettingsReader::sglang_arguments(EngineSettings& e) {
  const std::string at = kRollout + "engine_kwargs.sglang.";
  for (const char* argument : {"mem_fraction_static", "chunked_prefill_size"})
    if (v_.given(at + argument)) e.passed_through.insert(argument);
  if (v_.given(at + "mem_fraction_static"))
    e.gpu_memory_utilization = fraction(at + "mem_fraction_static", 0.5);
  e.max_num_batched_tokens = v_.integer(at + "chunked_prefill_size", 1, kMost, e.max_num_batched_tokens);
  if (const auto most = v_.optional_integer(at + "cuda_graph_max_bs", 1, kMost)) e.capture_sizes = {*most};
  e.num_gpu_blocks_override = v_.optional_integer(at + "max_total_tokens", 1, kMost);  // a block holds one
  tell_unmodelled(v_, at, kSglangUnmodelled, [this](auto key, auto what) { not_modelled(key, what); });
}

void SettingsReader::reward() {
  if (!s_.after(0, 7, 0)) return fsdp_reward();
  // The section's old place still counts where it is switched on.
  const std::string legacy = "reward_model.";
  const bool moved = s_.after(0, 7, 1) && !(v_.given(legacy + "enable") && v_.flag(legacy + "enable"));
  const std::string at = moved ? "reward.reward_model." : legacy;
  EngineSettings& e = s_.reward_engine;
  e.exists = v_.flag(at + "enable");
  s_.reward_workers = v_.integer("reward.num_workers", 0, 100000, 8);
  if (!e.exists) return;
  s_.reward_model_path = v_.text(at + "model_path", moved ? "" : v_.text(legacy + "model.path"));
  const std::string rollout = at + "rollout.";
  e.name = v_.word(rollout + "name", {"vllm", "sglang"}, "vllm");
  e.dtype = v_.dtype(rollout + "dtype", DType::bf16);
  e.gpu_memory_utilization = fraction(rollout + "gpu_memory_utilization", 0.5);
  e.tensor = v_.integer(rollout + "tensor_model_parallel_size", 1, kMost, 2);
  e.data = v_.integer(rollout + "data_parallel_size", 1, kMost, 1);
  e.enforce_eager = v_.flag(rollout + "enforce_eager", true);
  e.free_cache_engine = v_.flag(rollout + "free_cache_engine", true);
  e.max_num_seqs = v_.integer(rollout + "max_num_seqs", 1, kMost, 1024);
  e.max_num_batched_tokens = v_.integer(rollout + "max_num_batched_tokens", 1, kMost, 8192);
  e.max_model_len = v_.optional_integer(rollout + "max_model_len", 1, kMost);
  e.prompt_length = v_.integer(rollout + "prompt_length", 1, kMost, 2048);
  e.response_length = v_.integer(rollout + "response_length", 1, kMost, 2048);
  e.load_format = "auto";
  e.calculate_log_probs = false;
  if (v_.flag(at + "enable_resource_pool")) {
    e.nodes = v_.integer(at + "nnodes", 1, 1'000'000, 1);
    e.gpus_per_node = v_.integer(at + "n_gpus_per_node", 1, 1024, 8);
  }
}

}  // namespace headroom::verl

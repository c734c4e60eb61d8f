#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/configuration/values.h"
#include "planner/frameworks/read_job.h"
#include "planner/frameworks/verl/version.h"

namespace headroom::verl {

/// verl's settings of one run, resolved and typed: what the keys say, before it is known what they mean. The
/// Job is a pure function of them (job.h), so that search changes fields here instead of reading files again.
/// Fields are named after their keys.

enum class Strategy { fsdp, fsdp2, megatron, other };

struct Fsdp {
  bool param_offload = false, optimizer_offload = false, offload_policy = false;
  bool reshard_after_forward = true, forward_prefetch = false;
  std::int64_t fsdp_size = -1;
  std::optional<DType> model_dtype;  ///< none: the release's default for the role
  DType param_dtype = DType::bf16, reduce_dtype = DType::fp32;
  bool no_sync = true;  ///< use_no_sync_for_gradient_accumulation
  bool wrap_disabled = false;
  bool pad_to_length = false;
  std::int64_t pad_to_length_bucket = 1024;
};

struct Megatron {
  bool param_offload = false, optimizer_offload = false;
  std::int64_t tensor = 1, pipeline = 1, virtual_pipeline = 1, context = 1, expert = 1, expert_tensor = 0;
  bool sequence_parallel = true, distributed_optimizer = true;
  std::string recompute_granularity, recompute_method;
  std::int64_t recompute_layers = 0;
  std::vector<std::string> recompute_modules;
  std::int64_t first_stage_layers = 0, last_stage_layers = 0;
  bool account_for_embedding = false, account_for_loss = false;
  bool gradients_fp32 = true;
  MegatronSwitches switches;
  bool pad_to_length = false;
  std::int64_t pad_to_length_bucket = 512;
};

struct ModelSettings {
  std::string path, hf_config_path;
  Document override_config = Document::map();
  std::string attention;  ///< override_config.attn_implementation; empty: flash_attention_2
  bool gradient_checkpointing = true, activation_offload = false, remove_padding = true;
  bool use_shm = false, liger = false;
  bool mtp = false, mtp_trained = false;  ///< layers for multi-token prediction are held, are trained
  std::shared_ptr<const Architecture> architecture;
};

struct Lora {
  std::int64_t rank = 0;
  std::vector<std::string> targets, excluded;
  bool lists_targets = true, lists_excluded = true;  ///< else one word, an expression over whole names
  bool merge = false;
};

struct OptimizerSettings {
  std::string optimizer, implementation;
  bool fused = false;
  double cpu_fraction = 0;  ///< Megatron's hybrid optimizer
  std::optional<DType> states, main_grads;
};

/// How a pass is cut into micro-batches.
struct Packing {
  bool dynamic = false;
  std::optional<std::int64_t> micro;  ///< sequences a GPU
  std::int64_t tokens = 0;            ///< budget a GPU
};

/// Actor, reference, critic or (FSDP) reward model.
struct Worker {
  bool exists = false;
  Strategy strategy = Strategy::fsdp;
  Fsdp fsdp;
  Megatron megatron;
  ModelSettings model;
  Lora lora;
  OptimizerSettings optimizer;
  Packing train, forward;
  std::int64_t mini_batch = 0;  ///< prompts
  std::int64_t epochs = 1;
  std::int64_t ulysses = 1;
  unsigned saved_parts = 0;        ///< bits of Parts among save_contents
  bool saves_whole_model = false;  ///< hf_model among them
};

/// A rollout or reward engine.
struct EngineSettings {
  bool exists = false;
  std::string name;        ///< vllm, sglang, trtllm, hf
  bool sync_mode = false;  ///< inside the trainer process
  DType dtype = DType::bf16;
  double gpu_memory_utilization = 0.5;
  std::int64_t tensor = 1, data = 1, expert = 1, pipeline = 1;
  bool enforce_eager = false;
  std::vector<std::int64_t> capture_sizes;
  bool free_cache_engine = true, enable_sleep_mode = true;
  std::int64_t max_num_seqs = 256, max_num_batched_tokens = 8192;
  bool chunked_prefill = true;  ///< prompts may come in pieces
  std::optional<std::int64_t> max_model_len;
  std::int64_t prompt_length = 512, response_length = 512;
  std::string load_format = "dummy", quantization, kv_cache_dtype;
  bool layered_summon = false, calculate_log_probs = true;
  std::int64_t bucket_megabytes = 2048;
  std::optional<std::int64_t> kv_cache_memory_bytes, num_gpu_blocks_override, block_size;
  double swap_space_gib = 0;
  std::int64_t nodes = 0, gpus_per_node = 0;  ///< nodes > 0: GPUs of its own
  std::set<std::string> passed_through;  ///< arguments given in engine_kwargs, which win over verl's keys
};

/// An engine that scores the actor's tokens for on-policy distillation, on GPUs of its own.
struct Teacher {
  std::string name;  ///< of its process and pool: `teacher`, `teacher_gsm8k`
  std::string key;   ///< where its section stands: `distillation.teacher_models.gsm8k`
  std::string path;
  EngineSettings engine;
  std::shared_ptr<const Architecture> model;
};

struct Settings : FrameworkSettings {
  Version version;
  bool before_checks = false;  ///< a release before 0.3, read as 0.3.0, whose start-up asks less
  Versions versions;
  std::string gpu;
  std::int64_t nodes = 1, gpus_per_node = 8;
  std::int64_t gpus() const { return nodes * gpus_per_node; }

  Worker actor, ref, critic, reward;
  EngineSettings rollout, reward_engine;
  std::string reward_model_path;
  std::shared_ptr<const Architecture> reward_model;
  std::vector<Teacher> teachers;
  std::int64_t teacher_gpus = 0;  ///< of the pool that teachers share out

  // the actor's loss
  bool use_kl_loss = false, use_kl_in_reward = false;
  double entropy_coeff = 0;
  bool calculate_entropy = false, calculate_sum_pi_squared = false;
  bool logprob_entropy = true;  ///< asked for in the log-prob pass, by every trainer but SPIN's
  bool entropy_chunking = false, entropy_checkpointing = false, torch_compile = true;
  std::int64_t entropy_chunk = 2048;
  bool fused_kernels = false, fused_triton = false;
  bool flash_cross_entropy = true;

  // batch
  std::int64_t train_batch_size = 1024, gen_batch_size = 0, n = 1;
  std::int64_t prompt_length = 512, response_length = 512;

  // trainer
  bool critic_estimator = false;  ///< adv_estimator is gae
  bool bypass_mode = false;
  bool v1 = true;  ///< the V1 trainer (0.9+)
  std::string trainer_mode = "sync";
  std::int64_t save_freq = -1, test_freq = -1, critic_warmup = 0;
  bool val_before_train = true, resumed = false;
  std::optional<bool> graph_estimate;  ///< VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS
  bool first_engine = false;  ///< vLLM's V0: VLLM_USE_V1=0, or a backend for attention that V1 lacks
  std::string allocator_settings;
  bool allocator_from_environment = false;    ///< set by the launch, so that no key can change it
  std::vector<std::string> deprecated_micro;  ///< old global micro-batch keys that are given
  std::int64_t agent_workers = 8, reward_workers = 8;
  int steps = 3;
  std::vector<std::string> assumptions, not_modelled;

  bool after(int major, int minor, int patch) const { return version >= Version{major, minor, patch}; }
  /// Whether the adapters are served as adapters (not merged into the weights that are sent).
  bool serves_adapters() const { return actor.lora.rank > 0 && !actor.lora.merge; }
};

/// Reads every field from `values`. Wrong values, unknown words and models that can't be found end up as the
/// error of `values`; keys without a program as warnings and in `not_modelled`. `base` is the folder of the
/// configuration, for relative model paths.
Settings read_settings(Values& values, const Version& version, const JobOptions& options,
                       const std::string& base);

/// What verl refuses at start-up, under the same conditions: groups that do not divide the GPUs, batches that
/// do not divide, missing micro-batch sizes, budgets below the longest sequence …
struct Problem {
  std::string key, message;
};
std::optional<Problem> find_problem(const Settings& settings);

}  // namespace headroom::verl

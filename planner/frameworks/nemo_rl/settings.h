#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/configuration/values.h"
#include "planner/frameworks/read_job.h"
#include "planner/frameworks/settings/knobs.h"
#include "planner/frameworks/settings/table.h"

namespace headroom::nemo_rl {

using settings::Release;

/// NeMo RL's settings of one run, resolved and typed: what the keys say, before it is known what they mean.
/// The Job is a pure function of them (job.h). Fields are named after their keys.

/// The newest code that was read; nothing was released with it yet.
inline constexpr Release kHead{0, 8, 0};

enum class Algorithm { grpo, ppo, dpo, sft, rm, distillation };

/// How a pass is cut: sequence packing fills rows up to a budget, dynamic batching pads sequences of like
/// length to one, plain micro-batches have a number of sequences.
struct Budget {
  bool enabled = false;
  std::int64_t train_tokens = 0, logprob_tokens = 0, round = 64;
};

struct Lora {
  bool enabled = false, all_linear = true;
  std::int64_t dim = 8;
  std::vector<std::string> targets{}, excluded{};
};

/// The FSDP2 workers.
struct Dtensor {
  bool enabled = true;
  bool second = false;  ///< _v2: built on Automodel
  bool cpu_offload = false, sequence_parallel = false, activation_checkpointing = false;
  std::int64_t tensor = 1, context = 1, expert = 1, replicate = 1;
  std::optional<std::int64_t> clear_cache_every;
  bool liger = false;
  Lora lora;
  std::string allocator_settings;

  /// Experts lie whole on ranks that share them.
  bool deals_experts() const { return enabled && second && expert > 1; }
};

struct Megatron {
  bool enabled = false;
  std::int64_t empty_level = 1;
  bool activation_checkpointing = false;
  std::string granularity = "full";
  std::vector<std::string> recompute_modules;
  std::int64_t tensor = 1, pipeline = 1, context = 1, expert = 1, expert_tensor = 1, virtual_pipeline = 1;
  std::optional<std::int64_t> first_stage_layers, last_stage_layers;
  bool account_for_embedding = false, account_for_loss = false;
  bool sequence_parallel = false;
  bool rope_fusion = true, activation_fusion = true, accumulation_fusion = false;
  bool defer_fp32_logits = false, fused_linear_logprobs = false;
  std::int64_t fused_chunk = 256;
  std::string optimizer = "adam";
  bool distributed = true, precision_aware = true, optimizer_cpu_offload = false;
  double optimizer_offload_fraction = 0;
  DType exp_avg = DType::fp32;
  bool grad_reduce_in_fp32 = false;
  bool overlap_grad_reduce = true;
  bool fp8 = false, fp8_parameters = false;
  std::int64_t mtp_layers = 0;
  bool deepep = false, permute_fusion = true;
  std::string dispatcher = "alltoall";
  Lora peft;
  std::string allocator_settings;
};

struct Generation {
  std::string backend = "vllm";
  std::int64_t max_new_tokens = 512;
  double temperature = 1;
  bool colocated = true;
  std::optional<std::int64_t> gpus_per_node, nodes;
  bool async_engine = false;
  std::string precision = "bfloat16", kv_cache_dtype = "auto";
  std::int64_t tensor = 1, pipeline = 1, expert = 1;
  double utilization = 0.6;
  std::int64_t max_model_len = 0;
  bool enforce_eager = false;
  std::optional<std::int64_t> max_num_seqs, max_num_batched_tokens, block_size, blocks_override;
  std::optional<std::int64_t> kv_cache_memory_bytes;
  // sglang_cfg
  double sglang_fraction = 0.7;
  std::int64_t sglang_tensor = 1;
  // mcore_generation_config
  double mcore_buffer_gb = 10;
};

/// A trained model and its backend: policy, value model or teacher.
struct Policy {
  std::string model;
  std::int64_t global_batch = 512, micro_batch = 4, logprob_batch = 4, length = 512;
  std::string precision = "bfloat16";
  std::optional<std::int64_t> logprob_chunk;
  bool offload_optimizer_for_logprob = false;
  double refit_buffer_gb = 0;  ///< 0: not given
  std::int64_t divisible_by = 1;
  double max_grad_norm = 1;
  Budget packing, dynamic;
  std::string optimizer = "torch.optim.AdamW";
  std::string foreach_, fused;
  // TransformerEngine's FusedAdam: its moments' dtypes, and whether it keeps fp32 weights, or what bf16 lacks of them.
  std::string moments, square_moments;
  bool keeps_master = false, keeps_remainders = false;
  Dtensor dtensor;
  Megatron megatron;
  Generation generation;
  bool fsdp1_offload = false, fsdp1_checkpointing = false;  ///< the worker of 0.2
  std::shared_ptr<const Architecture> architecture;

  bool runs_megatron() const { return megatron.enabled; }
  DType compute_type() const { return parse_dtype(precision).value_or(DType::bf16); }
};

struct Settings : settings::TableSettings {
  Algorithm algorithm = Algorithm::grpo;

  Policy policy, value, teacher;
  std::int64_t prompts = 32, samples = 16;  ///< num_prompts_per_step, num_generations_per_prompt
  std::int64_t ppo_epochs = 1, policy_starts_at = 0;
  std::int64_t prompt_length = 512;  ///< data.max_input_seq_length
  double kl_penalty = 0;
  bool skip_reference = false;  ///< skip_reference_policy_logprobs_calculation
  bool on_policy = false;       ///< force_on_policy_ratio
  bool kl_in_reward = false;
  bool async = false, in_flight = false;
  std::int64_t age = 1;  ///< async_grpo.max_trajectory_age_steps: steps that are generated for at once
  bool saves = true, consolidated = false;
  std::int64_t save_period = 10;
  std::int64_t nodes = 1, gpus_per_node = 1, loader_workers = 1;

  bool generates() const {
    return algorithm == Algorithm::grpo || algorithm == Algorithm::ppo ||
           algorithm == Algorithm::distillation;
  }
  /// Chosen and rejected answers lie in one batch.
  std::int64_t rows_a_sample() const {
    return algorithm == Algorithm::dpo || algorithm == Algorithm::rm ? 2 : 1;
  }
  bool separate() const { return generates() && !policy.generation.colocated; }
  /// GPUs a node and nodes that generate alone; both 0 when colocated.
  std::int64_t generation_nodes() const;
  std::int64_t generation_gpus_per_node() const;
  std::int64_t train_nodes() const { return separate() && nodes > 1 ? nodes - generation_nodes() : nodes; }
  std::int64_t train_gpus_per_node() const {
    return separate() && nodes == 1 ? gpus_per_node - generation_gpus_per_node() : gpus_per_node;
  }
  std::int64_t train_gpus() const { return train_nodes() * train_gpus_per_node(); }
  bool has_reference() const;
};

/// The rows of every section of this run, with what has no effect because another backend runs.
std::vector<settings::Key> keys_of(const Settings& settings);

/// Reads every field of `release` from `values`. Errors stay in `values`.
void read_settings(Values& values, Settings& settings);

/// Sets one whole key, as a knob writes it; false: no such key or value.
bool assign(Settings& settings, const Setting& setting);

/// What NeMo RL refuses at start-up under the same conditions.
struct Problem {
  std::string key, message;
};
std::optional<Problem> find_problem(const Settings& settings);

}  // namespace headroom::nemo_rl

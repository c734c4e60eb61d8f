#include <iterator>

#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/trl/settings.h"

namespace headroom::trl {
namespace {

using settings::Effect;
using settings::Key;
using settings::kFirst;
using settings::kNever;
using R = settings::Row<Settings>;

constexpr std::int64_t kMost = std::int64_t{1} << 30, kTokens = 1 << 24;

/// Trainers that a key is of.
enum Of : unsigned {
  grpo = 1,
  rloo = 2,
  ppo = 4,
  dpo = 8,
  sft = 16,
  reward = 32,
  online = grpo | rloo,
  all = 63
};

unsigned bit(Trainer trainer) {
  return 1u << static_cast<unsigned>(trainer);
}

struct Option {
  unsigned of;
  R row;
};

// clang-format off
#define FIELD(type, name) [](Settings& s) -> type& { return s.name; }
using I = std::int64_t;
using O = std::optional<std::int64_t>;
using T = std::string;
using B = bool;
using D = double;
using L = std::vector<std::string>;

constexpr Option one(unsigned of, std::string_view key, settings::Member<Settings> member, std::string_view fallback,
                     std::int64_t least = 0, std::int64_t most = kMost, Release since = kFirst, Release until = kNever) {
  return {of, {.key = key, .member = member, .fallback = fallback, .effect = Effect::modelled, .note = {}, .least = least, .most = most, .since = since, .until = until}};
}
constexpr Option in(unsigned of, std::string_view key, settings::Member<Settings> member, std::string_view fallback, Release since, Release until = kNever) {
  return one(of, key, member, fallback, 0, kMost, since, until);
}
constexpr Option missing(unsigned of, std::string_view key, std::string_view fallback, std::string_view note, Release since = kFirst, Release until = kNever) {
  return {of, {.key = key, .member = std::monostate{}, .fallback = fallback, .effect = Effect::unmodelled, .note = note, .least = 0, .most = 0, .since = since, .until = until}};
}

const Option kOptions[] = {
    // Files that are read with the run.
    // ModelConfig and the scripts' own.
    one(all, "model_name_or_path", FIELD(T, model_name), "null"),
    in(all, "torch_dtype", FIELD(T, torch_type), "null", kFirst, {0, 27, 0}),
    in(all, "dtype", FIELD(T, type), "null", {0, 23, 0}, {0, 27, 0}),
    in(all, "dtype", FIELD(T, type), "float32", {0, 27, 0}),
    one(all, "attn_implementation", FIELD(T, attention), "null"),
    one(all, "use_peft", FIELD(B, use_peft), "false"),
    one(all, "lora_r", FIELD(I, lora_r), "16", 1, 65536),
    one(all, "lora_dropout", FIELD(D, lora_dropout), "0.05"),
    one(dpo | reward, "disable_dropout", FIELD(B, disable_dropout), "true"),
    one(online, "disable_dropout", FIELD(B, disable_dropout), "false"),
    one(all, "lora_target_modules", FIELD(L, lora_targets), "null"),
    missing(all, "lora_modules_to_save", "null", "modules trained whole beside adapters"),
    missing(all, "lora_target_parameters", "null", "adapters of single parameters", {0, 21, 0}),
    missing(all, "use_dora", "false", "DoRA's magnitudes and the products they need", {0, 16, 0}),
    one(all, "load_in_4bit", FIELD(B, in_4bit), "false"),
    one(all, "load_in_8bit", FIELD(B, in_8bit), "false"),
    one(online, "reward_model_name_or_path", FIELD(T, reward_name), "null"),
    one(ppo, "reward_model_path", FIELD(T, reward_path), "EleutherAI/pythia-160m"),
    one(ppo, "sft_model_path", FIELD(T, sft_model), "EleutherAI/pythia-160m"),
    // TrainingArguments.
    in(grpo, "per_device_train_batch_size", FIELD(I, batch), "1", kFirst, {0, 15, 0}),
    one(grpo, "per_device_train_batch_size", FIELD(I, batch), "8", 1, kMost, {0, 15, 0}),
    one(all & ~unsigned{grpo}, "per_device_train_batch_size", FIELD(I, batch), "8", 1),
    in(grpo, "gradient_accumulation_steps", FIELD(I, accum), "8", kFirst, {0, 15, 0}),
    one(grpo, "gradient_accumulation_steps", FIELD(I, accum), "1", 1, 65536, {0, 15, 0}),
    one(all & ~unsigned{grpo}, "gradient_accumulation_steps", FIELD(I, accum), "1", 1, 65536),
    in(all, "gradient_checkpointing", FIELD(B, grad_ckpt), "false", kFirst, {0, 22, 0}),
    in(all, "gradient_checkpointing", FIELD(B, grad_ckpt), "true", {0, 22, 0}),
    in(all, "gradient_checkpointing_kwargs.use_reentrant", FIELD(B, reentrant), "true", kFirst, {0, 27, 0}),
    in(all, "gradient_checkpointing_kwargs.use_reentrant", FIELD(B, reentrant), "false", {0, 27, 0}),
    in(all, "gradient_checkpointing_use_reentrant", FIELD(B, reentrant), "${gradient_checkpointing_kwargs.use_reentrant}", kFirst, {0, 27, 0}),
    in(all, "bf16", FIELD(T, bf16), "false", kFirst, {0, 19, 0}),
    in(all, "bf16", FIELD(T, bf16), "null", {0, 19, 0}),
    one(all, "fp16", FIELD(T, fp16), "false"),
    one(all, "optim", FIELD(T, optim), "null"),
    one(all, "max_grad_norm", FIELD(D, max_grad_norm), "1.0"),
    one(all, "save_strategy", FIELD(T, save_strategy), "steps"),
    one(all, "save_steps", FIELD(D, save_steps), "500"),
    one(all, "resume_from_checkpoint", FIELD(T, resume), "null"),
    one(all, "use_liger_kernel", FIELD(B, liger), "false"),
    one(all, "eval_strategy", FIELD(T, eval_strategy), "no"),
    one(all, "evaluation_strategy", FIELD(T, old_eval_strategy), "no"),
    one(all, "eval_steps", FIELD(D, eval_steps), "0"),
    one(all, "per_device_eval_batch_size", FIELD(I, eval_batch), "8", 1),
    one(all, "model_init_kwargs.dtype", FIELD(T, init_type), "null"),
    one(all, "model_init_kwargs.torch_dtype", FIELD(T, init_type_old), "null"),
    one(all, "model_init_kwargs.attn_implementation", FIELD(T, init_attention), "null"),
    missing(all, "fsdp", "null", "Transformers' own arguments of FSDP (Accelerate's are)"),
    missing(all, "torch_compile", "false", "compiled models", kFirst),
    missing(all, "torch_empty_cache_steps", "null", "emptying the cache each so many steps"),
    missing(all, "auto_find_batch_size", "false", "a batch that shrinks until it fits"),
    missing(all, "neftune_noise_alpha", "null", "noise beside the embeddings"),
    missing(all, "optim_target_modules", "null", "GaLore's projections"),
    missing(all, "parallelism_config", "null", "context and sequence parallelism"),
    missing(all, "accelerator_config.gradient_accumulation_kwargs.sync_each_batch", "false", "gradients reduced with each micro-batch"),
    one(all, "ddp_find_unused_parameters", FIELD(T, find_unused), "null"),
    missing(all, "ddp_bucket_cap_mb", "null", "buckets of another size"),
    // GRPO and RLOO.
    one(online, "num_generations", FIELD(I, num_generations), "8", 1, 65536),
    in(grpo, "max_completion_length", FIELD(I, response), "256", kFirst, {1, 10, 0}),
    one(grpo, "max_completion_length", FIELD(I, response), "512", 1, kTokens, {1, 10, 0}),
    in(rloo, "max_completion_length", FIELD(I, response), "256", {0, 22, 0}, {1, 10, 0}),
    one(rloo, "max_completion_length", FIELD(I, response), "512", 1, kTokens, {1, 10, 0}),
    in(grpo, "max_prompt_length", FIELD(O, max_prompt), "512", kFirst, {0, 26, 0}),
    in(grpo, "max_prompt_length", FIELD(O, max_prompt), "null", {0, 26, 0}, {0, 28, 0}),
    in(rloo, "max_prompt_length", FIELD(O, max_prompt), "512", {0, 22, 0}, {0, 27, 0}),
    in(rloo, "max_prompt_length", FIELD(O, max_prompt), "null", {0, 27, 0}, {0, 29, 0}),
    one(online, "steps_per_generation", FIELD(O, given_steps_per_generation), "null", 1, 65536, {0, 18, 0}),
    one(online, "generation_batch_size", FIELD(O, generation_batch), "null", 1, kMost, {0, 18, 0}),
    one(online, "num_iterations", FIELD(I, num_iterations), "1", 1, 65536, {0, 16, 0}),
    in(grpo, "beta", FIELD(D, beta), "0.04", kFirst, {0, 19, 0}),
    in(grpo, "beta", FIELD(D, beta), "0.0", {0, 19, 0}),
    in(rloo, "beta", FIELD(D, beta), "0.05", {0, 22, 0}),
    in(grpo, "temperature", FIELD(D, temperature), "0.9", kFirst, {0, 18, 0}),
    in(grpo, "temperature", FIELD(D, temperature), "1.0", {0, 18, 0}),
    in(rloo, "temperature", FIELD(D, temperature), "1.0", {0, 22, 0}),
    in(grpo, "use_liger_loss", FIELD(B, liger_loss), "false", {0, 17, 0}, {0, 28, 0}),
    in(grpo, "entropy_coef", FIELD(D, entropy_coefficient), "0.0", {1, 8, 0}),
    in(grpo, "use_adaptive_entropy", FIELD(B, adaptive_entropy), "false", {1, 8, 0}),
    in(grpo, "top_entropy_quantile", FIELD(D, entropy_quantile), "1.0", {0, 20, 0}),
    in(grpo, "cast_lm_head_to_fp32", FIELD(B, head_fp32), "false", {0, 25, 0}),
    in(online, "sync_ref_model", FIELD(B, sync_reference), "false", {0, 15, 0}),
    in(online, "ds3_gather_for_generation", FIELD(B, gathers_to_generate), "true", {0, 15, 0}),
    one(online, "pad_to_multiple_of", FIELD(I, pad_to), "1", 1, 65536, {1, 0, 0}),
    in(online, "use_vllm", FIELD(B, generation.use_vllm), "false", kFirst),
    in(online, "vllm_mode", FIELD(T, generation.mode), "server", {0, 18, 0}, {1, 0, 0}),
    in(online, "vllm_mode", FIELD(T, generation.mode), "colocate", {1, 0, 0}),
    in(grpo, "vllm_device", FIELD(T, generation.device), "auto", kFirst, {0, 18, 0}),
    in(grpo, "vllm_gpu_memory_utilization", FIELD(D, generation.utilization), "0.9", kFirst, {0, 18, 0}),
    in(online, "vllm_gpu_memory_utilization", FIELD(D, generation.utilization), "0.3", {0, 18, 0}),
    one(online, "vllm_tensor_parallel_size", FIELD(I, generation.tensor), "1", 1, 1024, {0, 18, 0}),
    one(online, "vllm_max_model_length", FIELD(O, generation.max_length), "null", 1, kTokens, {0, 26, 0}),
    one(grpo, "vllm_max_model_len", FIELD(O, generation.max_length), "null", 1, kTokens, {0, 15, 0}, {0, 18, 0}),
    in(online, "vllm_enable_sleep_mode", FIELD(B, generation.sleep), "false", {0, 23, 0}),
    in(grpo, "vllm_importance_sampling_correction", FIELD(B, importance_sampling), "true", {0, 23, 0}),
    missing(online, "use_transformers_paged", "false", "generation with a pool of pages", {0, 20, 0}, {1, 7, 0}),
    missing(online, "use_transformers_continuous_batching", "false", "generation with a pool of pages", {1, 7, 0}),
    missing(online, "cache_implementation", "null", "a key/value cache of another kind", {0, 16, 0}),
    missing(grpo, "off_policy_mask_threshold", "null", "the off-policy mask", {0, 27, 0}),
    missing(online, "environment_factory", "null", "environments that answer within a generation"),
    // PPO.
    one(ppo, "response_length", FIELD(I, response), "53", 1, kTokens),
    one(ppo, "num_ppo_epochs", FIELD(I, epochs), "4", 1, 1024),
    one(ppo, "num_mini_batches", FIELD(I, mini_batches), "1", 1, 65536),
    one(ppo, "local_rollout_forward_batch_size", FIELD(I, rollout_batch), "64", 1, kMost),
    one(ppo, "temperature", FIELD(D, temperature), "0.7"),
    in(ppo, "ds3_gather_for_generation", FIELD(B, gathers_to_generate), "true", {0, 14, 0}),
    missing(ppo, "whiten_rewards", "false", "rewards that are whitened"),
    // DPO, SFT and reward models.
    one(dpo, "max_length", FIELD(O, max_length), "null", 2, kTokens, kFirst, {0, 14, 0}),
    one(dpo, "max_length", FIELD(O, max_length), "1024", 2, kTokens, {0, 14, 0}),
    one(reward, "max_length", FIELD(O, max_length), "null", 1, kTokens, kFirst, {0, 14, 0}),
    one(reward, "max_length", FIELD(O, max_length), "1024", 1, kTokens, {0, 14, 0}),
    one(sft, "max_seq_length", FIELD(O, max_length), "1024", 2, kTokens, kFirst, {0, 20, 0}),
    one(sft, "max_length", FIELD(O, max_length), "1024", 2, kTokens, {0, 16, 0}),
    in(dpo, "precompute_ref_log_probs", FIELD(B, precompute), "false", kFirst),
    one(dpo, "precompute_ref_batch_size", FIELD(O, precompute_batch), "null", 1, kMost, {0, 13, 0}),
    in(dpo, "reference_free", FIELD(B, reference_free), "false", kFirst, {0, 29, 0}),
    in(dpo, "sync_ref_model", FIELD(B, sync_reference), "false", kFirst),
    in(dpo | sft, "use_liger_loss", FIELD(B, liger_loss), "false", {0, 19, 0}, {0, 28, 0}),
    missing(dpo, "use_logits_to_keep", "false", "logits of the completions alone", {0, 15, 0}, {0, 29, 0}),
    in(dpo, "padding_free", FIELD(B, padding_free), "false", {0, 14, 0}),
    missing(dpo, "use_weighting", "false", "WPO's weights"),
    in(dpo, "activation_offloading", FIELD(B, offload_activations), "false", {0, 29, 0}),
    in(sft, "activation_offloading", FIELD(B, offload_activations), "false", {0, 18, 0}),
    in(reward, "activation_offloading", FIELD(B, offload_activations), "false", {0, 24, 0}),
    in(sft, "packing", FIELD(B, packing), "false", kFirst),
    in(sft, "packing_strategy", FIELD(T, packing_strategy), "ffd", {0, 19, 0}, {0, 20, 0}),
    in(sft, "packing_strategy", FIELD(T, packing_strategy), "bfd", {0, 20, 0}),
    in(sft, "padding_free", FIELD(B, padding_free), "false", {0, 16, 0}),
    in(sft, "loss_type", FIELD(T, loss_type), "nll", {0, 23, 0}, {1, 6, 0}),
    in(sft, "loss_type", FIELD(T, loss_type), "null", {1, 6, 0}),
    in(sft, "use_liger", FIELD(B, liger), "false", kFirst, {0, 18, 0}),
    one(sft, "pad_to_multiple_of", FIELD(I, pad_to), "1", 1, 65536, {0, 18, 0}),
    one(reward, "pad_to_multiple_of", FIELD(I, pad_to), "1", 1, 65536, {0, 24, 0}),
    one(dpo, "pad_to_multiple_of", FIELD(I, pad_to), "1", 1, 65536, {0, 29, 0}),
    // Accelerate: names of its flags.
    one(all, "accelerate.distributed_type", FIELD(T, launcher.type), "null"),
    one(all, "accelerate.num_processes", FIELD(O, launcher.processes), "null", 1, 1 << 20),
    one(all, "accelerate.num_machines", FIELD(I, launcher.machines), "1", 1, 1 << 20),
    one(all, "accelerate.mixed_precision", FIELD(T, launcher.mixed_precision), "null"),
    one(all, "accelerate.use_deepspeed", FIELD(B, launcher.use_deepspeed), "false"),
    one(all, "accelerate.use_fsdp", FIELD(B, launcher.use_fsdp), "false"),
    one(all, "accelerate.zero_stage", FIELD(I, launcher.stage), "2", 0, 3),
    one(all, "accelerate.offload_optimizer_device", FIELD(T, launcher.offload_optimizer), "none"),
    one(all, "accelerate.offload_param_device", FIELD(T, launcher.offload_parameters), "none"),
    one(all, "accelerate.gradient_accumulation_steps", FIELD(T, launcher.accumulation), "null"),
    one(all, "accelerate.zero3_init_flag", FIELD(B, launcher.zero3_init), "true"),
    one(all, "accelerate.fsdp_version", FIELD(I, launcher.fsdp_version), "1", 1, 2),
    one(all, "accelerate.fsdp_reshard_after_forward", FIELD(T, launcher.reshard), "true"),
    one(all, "accelerate.fsdp_sharding_strategy", FIELD(T, launcher.sharding_strategy), "null"),
    one(all, "accelerate.fsdp_offload_params", FIELD(B, launcher.offload_params), "false"),
    one(all, "accelerate.fsdp_auto_wrap_policy", FIELD(T, launcher.wrap_policy), "null"),
    one(all, "accelerate.fsdp_forward_prefetch", FIELD(B, launcher.forward_prefetch), "false"),
    one(all, "accelerate.fsdp_activation_checkpointing", FIELD(B, launcher.fsdp_checkpointing), "false"),
    one(all, "accelerate.fsdp_cpu_ram_efficient_loading", FIELD(B, launcher.ram_efficient), "true"),
    one(all, "accelerate.fsdp_state_dict_type", FIELD(T, launcher.state_dict), "FULL_STATE_DICT"),
    missing(all, "accelerate.deepspeed_moe_layer_cls_names", "null", "blocks of experts gathered as a whole"),
    missing(all, "accelerate.parallelism_config", "null", "context and sequence parallelism"),
    missing(all, "accelerate.parallelism_config_cp_size", "1", "context parallelism"),
    missing(all, "accelerate.parallelism_config_sp_size", "1", "sequence parallelism"),
    missing(all, "accelerate.parallelism_config_tp_size", "1", "tensor parallelism"),
    missing(all, "accelerate.dynamo_backend", "no", "compiled models"),
    // A DeepSpeed configuration file.
    one(all, "ds.zero_optimization.stage", FIELD(O, deepspeed.stage), "null", 0, 3),
    one(all, "ds.zero_optimization.reduce_bucket_size", FIELD(T, deepspeed.reduce_bucket), "500000000"),
    one(all, "ds.zero_optimization.allgather_bucket_size", FIELD(T, deepspeed.allgather_bucket), "500000000"),
    one(all, "ds.zero_optimization.stage3_prefetch_bucket_size", FIELD(T, deepspeed.prefetch_bucket), "50000000"),
    one(all, "ds.zero_optimization.stage3_param_persistence_threshold", FIELD(T, deepspeed.persistence), "100000"),
    one(all, "ds.zero_optimization.stage3_max_live_parameters", FIELD(T, deepspeed.live), "1000000000"),
    one(all, "ds.zero_optimization.stage3_max_reuse_distance", FIELD(T, deepspeed.reuse), "1000000000"),
    one(all, "ds.zero_optimization.contiguous_gradients", FIELD(T, deepspeed.contiguous), "true"),
    one(all, "ds.zero_optimization.overlap_comm", FIELD(T, deepspeed.overlap), "null"),
    one(all, "ds.zero_optimization.offload_optimizer.device", FIELD(T, deepspeed.offload_optimizer), "none"),
    one(all, "ds.zero_optimization.offload_optimizer.pin_memory", FIELD(T, deepspeed.pin_optimizer), "false"),
    one(all, "ds.zero_optimization.offload_param.device", FIELD(T, deepspeed.offload_parameters), "none"),
    one(all, "ds.zero_optimization.offload_param.pin_memory", FIELD(T, deepspeed.pin_parameters), "false"),
    one(all, "ds.optimizer.type", FIELD(T, deepspeed.optimizer), "null"),
    one(all, "ds.bf16.enabled", FIELD(T, deepspeed.bf16), "auto"),
    one(all, "ds.fp16.enabled", FIELD(T, deepspeed.fp16), "auto"),
    one(all, "ds.gradient_accumulation_steps", FIELD(T, deepspeed.accumulation), "auto"),
    missing(all, "ds.zero_optimization.sub_group_size", "1000000000", "sub-groups of another size"),
    missing(all, "ds.zero_optimization.zero_hpz_partition_size", "1", "a second copy of ZeRO-3's weights in each node"),
    missing(all, "ds.zero_optimization.zero_quantized_weights", "false", "quantized gathers"),
    missing(all, "ds.activation_checkpointing.partition_activations", "false", "DeepSpeed's own checkpointing"),
    // What no file of TRL's says.
    one(all, "headroom.gpu", FIELD(T, gpu), "null"),
    one(all, "headroom.resumed", FIELD(B, resumed), "false"),
    one(all, "headroom.trainer", FIELD(T, named_trainer), "null"),
    one(all, "headroom.gpus", FIELD(O, stated_gpus), "null", 1, 1 << 20),
    one(online | ppo, "headroom.prompt_length", FIELD(O, max_length), "null", 1, kTokens),
    one(online, "headroom.server_tensor_parallel_size", FIELD(I, generation.server_tensor), "1", 1, 1024),
    one(online, "headroom.server_data_parallel_size", FIELD(I, generation.server_data), "1", 1, 1024),
    one(online, "headroom.server_gpu_memory_utilization", FIELD(D, generation.server_utilization), "0.9"),
    one(online, "headroom.server_enforce_eager", FIELD(B, generation.enforce_eager), "false"),
};
// clang-format on
#undef FIELD

/// Keys that decide neither memory nor time of a step: data, logging, rates, names.
constexpr std::string_view kWithoutEffect[] = {
    // TrainingArguments.
    "config", "accelerate_config", "output_dir", "max_steps", "save_only_model", "loss_type", "overwrite_output_dir", "do_train", "do_eval",
    "do_predict", "prediction_loss_only", "eval_accumulation_steps", "eval_delay", "learning_rate",
    "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "num_train_epochs", "lr_scheduler_type",
    "lr_scheduler_kwargs", "warmup_ratio", "warmup_steps", "log_level", "log_level_replica",
    "log_on_each_node", "logging_dir", "logging_strategy", "logging_first_step", "logging_steps",
    "logging_nan_inf_filter", "save_total_limit", "save_safetensors", "save_on_each_node", "no_cuda",
    "use_cpu", "restore_callback_states_from_checkpoint", "seed", "data_seed", "jit_mode_eval", "use_ipex",
    "fp16_opt_level", "half_precision_backend", "bf16_full_eval", "fp16_full_eval", "tf32", "local_rank",
    "ddp_backend", "debug", "dataloader_drop_last", "dataloader_num_workers", "dataloader_prefetch_factor",
    "past_index", "run_name", "disable_tqdm", "remove_unused_columns", "label_names",
    "load_best_model_at_end", "metric_for_best_model", "greater_is_better", "ignore_data_skip", "fsdp_config",
    "accelerator_config", "deepspeed", "label_smoothing_factor", "optim_args", "adafactor", "group_by_length",
    "length_column_name", "report_to", "ddp_broadcast_buffers",
    "dataloader_pin_memory", "dataloader_persistent_workers", "skip_memory_metrics",
    "use_legacy_prediction_loop", "push_to_hub", "hub_model_id", "hub_strategy", "hub_token",
    "hub_private_repo", "hub_always_push", "hub_revision", "gradient_checkpointing_kwargs",
    "include_inputs_for_metrics", "include_for_metrics", "eval_do_concat_batches", "push_to_hub_model_id",
    "full_determinism", "torchdynamo", "ray_scope", "ddp_timeout", "torch_compile_backend",
    "torch_compile_mode", "include_tokens_per_second", "include_num_input_tokens_seen", "batch_eval_metrics",
    "eval_on_start", "liger_kernel_config", "eval_use_gather_object", "average_tokens_across_devices",
    "project", "trackio_space_id", "train_sampling_strategy", "env", "trust_remote_code",
    // ModelConfig, scripts and data.
    "model_revision", "lora_alpha", "lora_task_type", "use_rslora", "bnb_4bit_quant_type",
    "use_bnb_nested_quant", "bnb_4bit_quant_storage", "dataset_name", "dataset_config", "dataset_train_split",
    "dataset_test_split", "dataset_streaming", "dataset_num_proc", "dataset_text_field", "dataset_kwargs",
    "dataset_batch_size", "datasets", "mixture", "streaming", "test_split_size", "columns", "data_files",
    "data_dir", "split", "path", "ignore_bias_buffers", "reward_funcs", "chat_template_path",
    "chat_template_kwargs", "eos_token", "pad_token", "padding_value", "tools", "model_init_kwargs",
    "ref_model_init_kwargs", "disable_dropout", "exp_name", "shuffle_dataset", "num_of_sequences",
    "chars_per_token", "eval_packing", "completion_only_loss", "assistant_only_loss", "truncation_mode",
    "label_pad_token_id", "max_target_length", "is_encoder_decoder", "generate_during_eval",
    "model_adapter_name", "ref_adapter_name", "force_use_ref_model", "base_model_attribute_name",
    // PPO: now and then it answers a batch of the evaluation's for the log.
    "num_sample_generations",
    // GRPO and RLOO.
    "top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs", "reward_weights", "scale_rewards",
    "epsilon", "epsilon_high", "delta", "sapo_temperature_neg", "sapo_temperature_pos",
    "importance_sampling_level", "mask_truncated_completions", "ref_model_mixup_alpha",
    "ref_model_sync_steps", "log_completions", "num_completions_to_print", "wandb_log_unique_prompts",
    "log_unique_prompts", "log_completions_hub_repo", "log_multimodal", "num_generations_eval",
    "multi_objective_aggregation", "max_tool_calling_iterations", "vllm_server_base_url", "vllm_server_host",
    "vllm_server_port", "vllm_server_timeout", "vllm_group_port", "vllm_guided_decoding_regex",
    "vllm_structured_outputs_regex", "vllm_model_impl", "vllm_dtype", "vllm_enable_prefix_caching",
    "vllm_importance_sampling_cap", "vllm_importance_sampling_mode", "vllm_importance_sampling_clip_max",
    "vllm_importance_sampling_clip_min", "use_bias_correction_kl", "vespo_k_pos", "vespo_lambda_pos",
    "vespo_k_neg", "vespo_lambda_neg", "entropy_coef_min", "entropy_coef_max", "entropy_coef_delta",
    "entropy_target", "transformers_continuous_batching_config", "reward_clip_range", "normalize_advantages",
    "normalize_reward", "rloo_k", "router_aux_loss_coef", "use_rich",
    // PPO.
    "kl_coef", "cliprange", "vf_coef", "cliprange_value", "gamma", "lam", "kl_estimator", "total_episodes",
    "stop_token", "stop_token_id", "missing_eos_penalty", "world_size", "num_total_batches",
    "micro_batch_size", "local_batch_size", "batch_size", "local_mini_batch_size", "mini_batch_size",
    // DPO and reward models.
    "label_smoothing", "f_divergence_type", "f_alpha_divergence_coef", "rpo_alpha", "ld_alpha",
    "discopop_tau", "loss_weights", "center_rewards_coefficient",
    // Accelerate and DeepSpeed.
    "accelerate", "ds", "headroom.versions"};

struct Rows {
  std::vector<R> rows;
  std::vector<Key> keys;
};

Rows rows_of(Trainer trainer) {
  Rows out;
  for (const Option& option : kOptions)
    if ((option.of & bit(trainer)) != 0) out.rows.push_back(option.row);
  // RLOO generates two completions a prompt unless told otherwise.
  if (trainer == Trainer::rloo)
    for (R& row : out.rows)
      if (row.key == "num_generations") row.fallback = "2";
  settings::append_keys(out.keys, "", std::span<const R>(out.rows));
  out.keys.push_back(settings::stated_model_key());
  // Keys of other trainers that this one does not read, and those that decide nothing.
  settings::append_without_effect(out.keys, kWithoutEffect);
  return out;
}

const Rows& known(Trainer trainer) {
  static const Rows rows[] = {rows_of(Trainer::grpo), rows_of(Trainer::rloo), rows_of(Trainer::ppo),
                              rows_of(Trainer::dpo),  rows_of(Trainer::sft),  rows_of(Trainer::reward)};
  return rows[static_cast<std::size_t>(trainer)];
}

}  // namespace

std::vector<Key> keys_of(Trainer trainer) {
  return known(trainer).keys;
}

void read_settings(Values& values, Settings& s) {
  settings::read_section(values, "", std::span<const R>(known(s.trainer).rows), s.release, s);
}

bool assign(Settings& s, const Setting& setting) {
  return settings::assign(s, std::span<const R>(known(s.trainer).rows), setting.key, setting.value);
}

}  // namespace headroom::trl

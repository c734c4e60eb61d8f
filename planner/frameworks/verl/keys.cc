#include "planner/frameworks/verl/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planner/configuration/value_grammar.h"

namespace headroom::verl {
namespace {

constexpr auto M = Effect::modelled;
constexpr auto U = Effect::unmodelled;
constexpr auto N = Effect::none;

constexpr Version v4{0, 4, 0}, v5{0, 5, 0}, v6{0, 6, 0}, v61{0, 6, 1}, v7{0, 7, 0}, v71{0, 7, 1}, v8{0, 8, 0}, v9{0, 9, 0};
constexpr Version v0 = kOldest, vv = kNever;
constexpr Version vNext = kUnread;

/// A key below its section's prefix; empty: the section itself. Types: b boolean, i integer, f number, s
/// text, l list, d map.
struct Row {
  std::string_view key;
  char type;
  std::string_view fallback;
  Effect effect;
  Version since = v0, until = vv;
};

// clang-format off

constexpr Row kModel[] = {
    {"path", 's', "~/models/deepseek-llm-7b-chat", M},
    {"hf_config_path", 's', "null", M, v7},
    {"tokenizer_path", 's', "null", N},
    {"custom_chat_template", 's', "null", N},
    {"external_lib", 's', "null", N},
    {"trust_remote_code", 'b', "false", N},
    {"use_shm", 'b', "false", M},
    {"override_config", 'd', "{}", M},
    {"enable_gradient_checkpointing", 'b', "true", M},
    {"enable_activation_offload", 'b', "false", M},
    {"use_remove_padding", 'b', "false", M, v0, v7},
    {"use_remove_padding", 'b', "true", M, v7},
    {"lora_rank", 'i', "0", M},
    {"lora_alpha", 'f', "16", N},
    {"target_modules", 'l', "all-linear", M},
    {"exclude_modules", 'l', "null", M},
    {"target_parameters", 'l', "null", U},
    {"lora_adapter_path", 's', "null", M, v6},
    {"use_liger", 'b', "false", M},
    {"use_fused_kernels", 'b', "false", M},
    {"fused_kernel_options.impl_backend", 's', "torch", M},
    {"tiled_mlp.enabled", 'b', "false", U, v7},
    {"tiled_mlp.num_shards", 'i', "4", N, v7},
    {"mtp.enable", 'b', "false", M, v8},
    {"mtp.enable_train", 'b', "false", M, v8},
    {"mtp.enable_rollout", 'b', "false", U, v8},
    {"mtp.detach_encoder", 'b', "false", U, v8},
    {"mtp", 'd', "{}", N, v8},
    {"lora.rank", 'i', "0", M, v71},
    {"lora.alpha", 'f', "32", N, v71},
    {"lora.merge", 'b', "false", M, v71},
    {"lora.target_modules", 'l', "null", M, v71},
    {"lora.adapter_path", 's', "null", M, v71},
    {"lora", 'd', "{}", N, v71},
};

constexpr Row kFsdp[] = {
    {"param_offload", 'b', "false", M},
    {"grad_offload", 'b', "false", N, v0, v4},
    {"optimizer_offload", 'b', "false", M},
    {"offload_policy", 'b', "false", M},
    {"reshard_after_forward", 'b', "true", M},
    {"fsdp_size", 'i', "-1", M},
    {"forward_prefetch", 'b', "false", M},
    {"model_dtype", 's', "null", M, v0, v6},
    {"model_dtype", 's', "fp32", M, v6},
    {"mixed_precision", 'd', "null", M},
    {"use_no_sync_for_gradient_accumulation", 'b', "true", M, vNext},
    {"dtype", 's', "bfloat16", M, v6},
    {"use_orig_params", 'b', "false", N},
    {"wrap_policy.min_num_params", 'i', "0", U},
    {"wrap_policy.transformer_layer_cls_to_wrap", 'l', "null", N},
    {"wrap_policy.disable", 'b', "false", M},
    {"ulysses_sequence_parallel_size", 'i', "1", M, v6},
    {"forward_only", 'b', "false", N, v7},
    {"use_torch_compile", 'b', "true", N, v7},
    {"pad_to_length", 'b', "${oc.select:actor_rollout_ref.actor.pad_to_length,false}", M, v8},
    {"pad_to_length_bucket", 'i', "1024", M, v8},
    {"entropy_from_logits_with_chunking", 'b', "null", N, v7},
    {"entropy_from_logits_chunk_size", 'i', "null", N, v7},
    {"entropy_checkpointing", 'b', "null", N, v7},
    {"seed", 'i', "42", N, v7},
    {"full_determinism", 'b', "false", N, v7},
    {"strategy", 's', "null", N, v7},
    {"qat.enable", 'b', "false", U, v8},
    {"qat", 'd', "{}", N, v8},
    {"turbo_config", 'd', "{}", N, v9},
};

constexpr Row kMegatron[] = {
    {"param_offload", 'b', "false", M},
    {"grad_offload", 'b', "false", N},
    {"optimizer_offload", 'b', "false", M},
    {"tensor_model_parallel_size", 'i', "1", M},
    {"expert_model_parallel_size", 'i', "1", M},
    {"expert_tensor_parallel_size", 'i', "null", M, v0, v6},
    {"expert_tensor_parallel_size", 'i', "1", M, v6, v61},
    {"expert_tensor_parallel_size", 'i', "null", M, v61},
    {"pipeline_model_parallel_size", 'i', "1", M},
    {"virtual_pipeline_model_parallel_size", 'i', "null", M},
    {"context_parallel_size", 'i', "1", M},
    {"sequence_parallel", 'b', "true", M},
    {"use_distributed_optimizer", 'b', "true", M},
    {"use_megatron_fsdp", 'b', "false", U, v8},
    {"use_dist_checkpointing", 'b', "false", N},
    {"dist_checkpointing_path", 's', "null", N},
    {"dynamic_context_parallel", 'b', "false", U, v8},
    {"max_seqlen_per_dp_cp_rank", 'i', "null", N, v8},
    {"seed", 'i', "42", N},
    {"override_ddp_config", 'd', "{}", M},
    {"override_transformer_config", 'd', "{recompute_granularity: null, recompute_modules: [core_attn], "
                                         "recompute_method: null, recompute_num_layers: null}", M},
    {"override_transformer_config.fp8", 's', "null", M},
    {"override_transformer_config.fp8_param", 'b', "false", M},
    {"override_transformer_config.fp4", 's', "null", U},
    {"override_transformer_config.mtp_num_layers", 'i', "null", U},
    {"override_transformer_config.cpu_offloading", 'b', "false", U},
    {"override_transformer_config.fine_grained_activation_offloading", 'b', "false", U},
    {"override_transformer_config.enable_cuda_graph", 'b', "false", U},
    {"override_transformer_config.cuda_graph_impl", 's', "none", U},
    {"override_transformer_config.mtp_hsm", 'b', "false", U},
    {"override_transformer_config.mtp_use_repeated_layer", 'b', "false", U},
    {"override_transformer_config.pipeline_model_parallel_layout", 's', "null", U},
    {"override_transformer_config.moe_expert_capacity_factor", 'f', "null", U},
    {"override_transformer_config.moe_layer_recompute", 'b', "false", U},
    {"override_transformer_config.moe_paged_stash", 'b', "false", U},
    {"override_transformer_config.overlap_moe_expert_parallel_comm", 'b', "false", U},
    {"override_transformer_config.activation_func_fp8_input_store", 'b', "false", U},
    {"override_transformer_config.distribute_saved_activations", 'b', "false", U},
    {"override_transformer_config.defer_embedding_wgrad_compute", 'b', "false", U},
    {"override_transformer_config.delay_wgrad_compute", 'b', "false", U},
    {"override_transformer_config.fp32_residual_connection", 'b', "false", U},
    {"override_transformer_config.tp_comm_overlap", 'b', "false", U},
    {"override_transformer_config.attention_backend", 's', "auto", M},
    {"override_ddp_config.use_megatron_fsdp", 'b', "false", U},
    {"override_ddp_config.use_custom_fsdp", 'b', "false", U},
    {"override_ddp_config.data_parallel_sharding_strategy", 's', "no_shard", U},
    {"override_ddp_config.fsdp_double_buffer", 'b', "false", U},
    {"override_ddp_config.nccl_ub", 'b', "false", U},
    {"override_ddp_config.reduce_scatter_with_fp32_accumulation", 'b', "false", U},
    {"override_ddp_config.num_distributed_optimizer_instances", 'i', "1", U},
    {"override_mcore_model_config", 'd', "{}", N},
    {"use_mbridge", 'b', "true", N},
    {"vanilla_mbridge", 'b', "false", N},
    {"use_remove_padding", 'b', "true", N, v8},
    {"pad_to_length", 'b', "false", M, v8},
    {"pad_to_length_bucket", 'i', "512", M, v8},
    {"pad_bshd_to_minibatch_max", 'b', "true", N, v8},
    {"dtype", 's', "bfloat16", U},
    {"load_weight", 'b', "true", N, v0, v8},
    {"qat.enable", 'b', "false", U, v8},
    {"qat", 'd', "{}", N, v8},
    {"router_replay", 'd', "{}", N, v7},
    {"forward_only", 'b', "false", N}, {"extra", 'd', "{}", N},
    {"dist_checkpointing_prefix", 's', "''", N}, {"dist_ckpt_optim_fully_reshardable", 'b', "false", N},
    {"distrib_optim_fully_reshardable_mem_efficient", 'b', "false", N},
    {"entropy_from_logits_with_chunking", 'b', "null", N, v8}, {"entropy_from_logits_chunk_size", 'i', "null", N, v8},
};

constexpr Row kOptimizer[] = {
    {"optimizer", 's', "null", M, v6},
    {"optimizer_impl", 's', "torch.optim", M, v6},
    {"override_optimizer_config", 'd', "{}", M},
    {"use_precision_aware_optimizer", 'b', "false", M, v8},
    {"main_grads_dtype", 's', "fp32", M, v8},
    {"exp_avg_dtype", 's', "fp32", M, v8},
    {"exp_avg_sq_dtype", 's', "fp32", N, v8},
    {"use_layer_wise_distributed_optimizer", 'b', "false", U, v9},
    {"lr", 'f', "1e-6", N},
    {"lr_warmup_steps", 'i', "-1", N},
    {"lr_warmup_steps_ratio", 'f', "0.0", N},
    {"total_training_steps", 'i', "-1", N},
    {"weight_decay", 'f', "0.01", N},
    {"betas", 'l', "[0.9,0.999]", N},
    {"clip_grad", 'f', "1.0", N},
    {"min_lr_ratio", 'f', "null", N},
    {"num_cycles", 'f', "0.5", N},
    {"warmup_style", 's', "null", N},
    {"lr_scheduler_type", 's', "constant", N},
    {"", 'd', "{}", N},
};

constexpr Row kCheckpoint[] = {
    {"save_contents", 'l', "[model,optimizer,extra]", M},
    {"load_contents", 'l', "${.save_contents}", N},
    {"contents", 'l', "[model,hf_model,optimizer,extra]", M, v0, v4},
    {"async_save", 'b', "false", U, v6},
    {"strict", 'b', "true", N},
    {"mbridge_config", 'd', "{}", N},
};

constexpr Row kActor[] = {
    {"strategy", 's', "fsdp", M},
    {"ppo_mini_batch_size", 'i', "256", M},
    {"ppo_micro_batch_size", 'i', "null", M},
    {"ppo_micro_batch_size_per_gpu", 'i', "null", M},
    {"use_dynamic_bsz", 'b', "false", M},
    {"ppo_max_token_len_per_gpu", 'i', "16384", M},
    {"ppo_epochs", 'i', "1", M},
    {"use_kl_loss", 'b', "false", M},
    {"entropy_coeff", 'f', "0.001", M, v0, v4},
    {"entropy_coeff", 'f', "0", M, v4},
    {"calculate_entropy", 'b', "false", M, v7},
    {"calculate_sum_pi_squared", 'b', "false", M, v8},
    {"entropy_from_logits_with_chunking", 'b', "false", M, v4},
    {"entropy_from_logits_chunk_size", 'i', "2048", M, v8},
    {"entropy_checkpointing", 'b', "false", M, v4},
    {"use_torch_compile", 'b', "true", M},
    {"fsdp_config.use_torch_compile", 'b', "true", M, v7},
    {"use_fused_kernels", 'b', "${oc.select:actor_rollout_ref.model.use_fused_kernels,false}", M, v5},
    {"use_remove_padding", 'b', "${oc.select:actor_rollout_ref.model.use_remove_padding,false}", M, v6},
    {"ulysses_sequence_parallel_size", 'i', "1", M},
    {"pad_to_length", 'b', "false", M, v8},
    {"freeze_vision_tower", 'b', "false", U, v7},
    {"use_prefix_grouper", 'b', "false", U, v8},
    {"shuffle", 'b', "false", N}, {"grad_clip", 'f', "1.0", N}, {"clip_ratio", 'f', "0.2", N},
    {"clip_ratio_low", 'f', "0.2", N}, {"clip_ratio_high", 'f', "0.2", N}, {"clip_ratio_c", 'f', "3.0", N},
    {"tau_pos", 'f', "1.0", N}, {"tau_neg", 'f', "1.05", N}, {"policy_loss", 'd', "{}", N},
    {"loss_agg_mode", 's', "token-mean", N}, {"loss_scale_factor", 'f', "null", N}, {"kl_loss_coef", 'f', "0.001", N},
    {"kl_loss_type", 's', "low_var_kl", N}, {"data_loader_seed", 'i', "42", N}, {"rollout_n", 'i', "null", N},
    {"profiler", 'd', "{}", N}, {"profile", 'd', "{}", N}, {"router_replay", 'd', "{}", N},
    {"qat", 'd', "{}", N}, {"nccl_timeout", 'i', "600", N},
};

constexpr Row kRef[] = {
    {"strategy", 's', "${actor_rollout_ref.actor.strategy}", M},
    {"model.path", 's', "null", M},
    {"log_prob_micro_batch_size", 'i', "null", M},
    {"log_prob_micro_batch_size_per_gpu", 'i', "null", M},
    {"log_prob_use_dynamic_bsz", 'b', "${oc.select:actor_rollout_ref.actor.use_dynamic_bsz,false}", M},
    {"log_prob_max_token_len_per_gpu", 'i', "${oc.select:actor_rollout_ref.actor.ppo_max_token_len_per_gpu,16384}", M},
    {"ulysses_sequence_parallel_size", 'i', "${oc.select:actor_rollout_ref.actor.ulysses_sequence_parallel_size,1}", M},
    {"use_torch_compile", 'b', "${oc.select:actor_rollout_ref.actor.use_torch_compile,true}", N},
    {"entropy_from_logits_with_chunking", 'b', "false", N}, {"entropy_from_logits_chunk_size", 'i', "2048", N},
    {"entropy_checkpointing", 'b', "false", N}, {"pad_to_length", 'b', "false", N}, {"rollout_n", 'i', "null", N},
    {"profiler", 'd', "{}", N}, {"router_replay", 'd', "{}", N}, {"nccl_timeout", 'i', "600", N},
};

/// A critic forms no log-probs, and predicts no further tokens.
constexpr Row kCriticModel[] = {
    {"mtp.enable", 'b', "false", N, v8},
    {"mtp.enable_train", 'b', "false", N, v8},
    {"use_fused_kernels", 'b', "false", N},
    {"fused_kernel_options.impl_backend", 's', "torch", N},
};

/// References and reward models live on the host under FSDP whatever these say, and have no optimizer.
constexpr Row kFrozenFsdp[] = {
    {"param_offload", 'b', "false", N},
    {"optimizer_offload", 'b', "false", N},
    {"offload_policy", 'b', "false", N},
};

/// Where the reward model's worker does not look: it has the key above the section.
constexpr Row kRewardUlysses[] = {{"ulysses_sequence_parallel_size", 'i', "1", N}};

/// ref.megatron follows the actor's.
constexpr Row kRefMegatron[] = {
    {"override_ddp_config", 'd', "{}", N},
    {"optimizer_offload", 'b', "false", N},
    {"use_distributed_optimizer", 'b', "true", N},
    {"param_offload", 'b', "${oc.select:actor_rollout_ref.actor.megatron.param_offload,false}", M},
    {"tensor_model_parallel_size", 'i', "${oc.select:actor_rollout_ref.actor.megatron.tensor_model_parallel_size,1}", M},
    {"expert_model_parallel_size", 'i', "${oc.select:actor_rollout_ref.actor.megatron.expert_model_parallel_size,1}", M},
    {"expert_tensor_parallel_size", 'i', "${oc.select:actor_rollout_ref.actor.megatron.expert_tensor_parallel_size,null}", M},
    {"pipeline_model_parallel_size", 'i', "${oc.select:actor_rollout_ref.actor.megatron.pipeline_model_parallel_size,1}", M},
    {"virtual_pipeline_model_parallel_size", 'i', "${oc.select:actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size,null}", M},
    {"context_parallel_size", 'i', "${oc.select:actor_rollout_ref.actor.megatron.context_parallel_size,1}", M},
    {"sequence_parallel", 'b', "true", M},
    {"override_transformer_config", 'd', "${oc.select:actor_rollout_ref.actor.megatron.override_transformer_config,{}}", M},
};

constexpr Row kRollout[] = {
    {"name", 's', "vllm", M, v0, v6},
    {"name", 's', "???", M, v6},
    {"mode", 's', "sync", M, v0, v7},
    {"mode", 's', "async", M, v7},
    {"dtype", 's', "bfloat16", M},
    {"gpu_memory_utilization", 'f', "0.5", M},
    {"tensor_model_parallel_size", 'i', "2", M},
    {"data_parallel_size", 'i', "1", M, v6},
    {"expert_parallel_size", 'i', "1", M, v6},
    {"pipeline_model_parallel_size", 'i', "1", M, v7},
    {"enforce_eager", 'b', "true", M, v0, v6},
    {"enforce_eager", 'b', "false", M, v6},
    {"cudagraph_capture_sizes", 'l', "null", M, v6},
    {"free_cache_engine", 'b', "true", M},
    {"enable_sleep_mode", 'b', "true", M, v7},
    {"max_num_seqs", 'i', "1024", M, v0, v9},
    {"max_num_seqs", 'i', "256", M, v9},
    {"max_num_batched_tokens", 'i', "8192", M},
    {"max_model_len", 'i', "null", M},
    {"prompt_length", 'i', "${oc.select:data.max_prompt_length,512}", M},
    {"response_length", 'i', "${oc.select:data.max_response_length,512}", M},
    {"enable_chunked_prefill", 'b', "true", M},
    {"enable_prefix_caching", 'b', "true", N},
    {"load_format", 's', "dummy_dtensor", M, v0, v6},
    {"load_format", 's', "dummy", M, v6},
    {"layered_summon", 'b', "false", M, v4},
    {"n", 'i', "1", M},
    {"log_prob_micro_batch_size", 'i', "null", M},
    {"log_prob_micro_batch_size_per_gpu", 'i', "null", M},
    {"log_prob_use_dynamic_bsz", 'b', "${oc.select:actor_rollout_ref.actor.use_dynamic_bsz,false}", M},
    {"log_prob_max_token_len_per_gpu", 'i', "${oc.select:actor_rollout_ref.actor.ppo_max_token_len_per_gpu,16384}", M},
    {"calculate_log_probs", 'b', "false", M, v0, v9},
    {"calculate_log_probs", 'b', "true", M, v9},
    {"multi_stage_wake_up", 'b', "false", N, v5},
    {"update_weights_bucket_megabytes", 'i', "512", M, v5, v71},
    {"checkpoint_engine.backend", 's', "naive", U, v71},
    {"checkpoint_engine.update_weights_bucket_megabytes", 'i', "2048", M, v71},
    {"checkpoint_engine", 'd', "{}", N, v71},
    {"quantization", 's', "null", M, v71},
    {"quantization_config_file", 's', "null", N, v71},
    {"engine_kwargs.vllm.swap_space", 'f', "null", M},
    {"engine_kwargs.vllm.gpu_memory_utilization", 'f', "null", M},
    {"engine_kwargs.vllm.kv_cache_dtype", 's', "null", M},
    {"engine_kwargs.vllm.kv_cache_memory_bytes", 'i', "null", M},
    {"engine_kwargs.vllm.num_gpu_blocks_override", 'i', "null", M},
    {"engine_kwargs.vllm.block_size", 'i', "null", M},
    {"engine_kwargs.vllm.max_num_seqs", 'i', "null", M},
    {"engine_kwargs.vllm.max_num_batched_tokens", 'i', "null", M},
    {"engine_kwargs.vllm.max_model_len", 'i', "null", M},
    {"engine_kwargs.vllm.enforce_eager", 'b', "null", M},
    {"engine_kwargs.vllm.kv_offloading_size", 'f', "0", M},
    {"engine_kwargs.vllm.enable_expert_parallel", 'b', "false", M},
    {"engine_kwargs.vllm.cpu_offload_gb", 'f', "0", U},
    {"engine_kwargs.vllm", 'd', "{}", N},
    {"engine_kwargs.sglang.mem_fraction_static", 'f', "null", M},
    {"engine_kwargs.sglang.chunked_prefill_size", 'i', "null", M},
    {"engine_kwargs.sglang.cuda_graph_max_bs", 'i', "null", M},
    {"engine_kwargs.sglang.max_total_tokens", 'i', "null", M},
    {"engine_kwargs.sglang", 'd', "{}", N},
    {"engine_kwargs", 'd', "{}", N},
    {"agent.num_workers", 'i', "8", M, v5},
    {"agent", 'd', "{}", N, v5},
    {"val_kwargs", 'd', "{}", N},
    {"multi_turn", 'd', "{}", N},
    {"disaggregation.enabled", 'b', "false", U, v9},
    {"disaggregation", 'd', "{}", N, v9},
    {"nnodes", 'i', "0", M, v7},
    {"n_gpus_per_node", 'i', "${oc.select:trainer.n_gpus_per_node,8}", M, v7},
    {"mtp", 'd', "{}", N, v8}, {"qat", 'd', "{}", N, v8}, {"limit_images", 'i', "null", U, v6},
    {"enable_rollout_routing_replay", 'b', "false", N}, {"logprobs_mode", 's', "processed_logprobs", N, v7},
    {"temperature", 'f', "1.0", N}, {"top_k", 'i', "-1", N}, {"top_p", 'f', "1", N}, {"do_sample", 'b', "true", N},
    {"ignore_eos", 'b', "false", N}, {"disable_log_stats", 'b', "true", N}, {"use_fire_sampling", 'b', "false", N},
    {"seed", 'i', "42", N}, {"full_determinism", 'b', "false", N}, {"scheduling_policy", 's', "fcfs", N},
    {"over_sample_rate", 'f', "0", N}, {"skip_tokenizer_init", 'b', "true", N}, {"trace", 'd', "{}", N},
    {"prometheus", 'd', "{}", N}, {"profiler", 'd', "{}", N}, {"moe_load_balance_metrics_interval", 'i', "0", N},
};

constexpr Row kCritic[] = {
    {"enable", 'b', "null", M, v6},
    {"strategy", 's', "fsdp", M},
    {"ppo_mini_batch_size", 'i', "${oc.select:actor_rollout_ref.actor.ppo_mini_batch_size,256}", M},
    {"ppo_micro_batch_size", 'i', "null", M},
    {"ppo_micro_batch_size_per_gpu", 'i', "${oc.select:.ppo_micro_batch_size,null}", M},
    {"use_dynamic_bsz", 'b', "${oc.select:actor_rollout_ref.actor.use_dynamic_bsz,false}", M},
    {"ppo_max_token_len_per_gpu", 'i', "32768", M},
    {"ppo_infer_max_token_len_per_gpu", 'i', "32768", M, v9},
    {"forward_max_token_len_per_gpu", 'i', "${.ppo_max_token_len_per_gpu}", M},
    {"forward_micro_batch_size", 'i', "${oc.select:.ppo_micro_batch_size,null}", M},
    {"forward_micro_batch_size_per_gpu", 'i', "${oc.select:.ppo_micro_batch_size_per_gpu,null}", M},
    {"ppo_epochs", 'i', "${oc.select:actor_rollout_ref.actor.ppo_epochs,1}", M},
    {"ulysses_sequence_parallel_size", 'i', "1", M},
    {"shuffle", 'b', "false", N}, {"grad_clip", 'f', "1.0", N}, {"cliprange_value", 'f', "0.5", N},
    {"loss_agg_mode", 's', "token-mean", N}, {"loss_scale_factor", 'f', "null", N}, {"rollout_n", 'i', "null", N},
    {"data_loader_seed", 'i', "42", N}, {"profiler", 'd', "{}", N}, {"nccl_timeout", 'i', "600", N},
    {"kl_ctrl", 'd', "{}", N},
};

/// The old section's own name of the model.
constexpr Row kRewardModelPath[] = {{"model.path", 's', "null", M}};

constexpr Row kRewardEngine[] = {
    {"enable", 'b', "false", M},
    {"enable_resource_pool", 'b', "false", M},
    {"n_gpus_per_node", 'i', "8", M},
    {"nnodes", 'i', "0", M},
    {"model_path", 's', "null", M},
    {"rollout.name", 's', "vllm", M},
    {"rollout.dtype", 's', "bfloat16", M},
    {"rollout.gpu_memory_utilization", 'f', "0.5", M},
    {"rollout.tensor_model_parallel_size", 'i', "2", M},
    {"rollout.data_parallel_size", 'i', "1", M},
    {"rollout.enforce_eager", 'b', "true", M},
    {"rollout.free_cache_engine", 'b', "true", M},
    {"rollout.max_num_seqs", 'i', "1024", M},
    {"rollout.max_num_batched_tokens", 'i', "8192", M},
    {"rollout.max_model_len", 'i', "null", M},
    {"rollout.prompt_length", 'i', "2048", M},
    {"rollout.response_length", 'i', "2048", M},
    {"rollout", 'd', "{}", N},
    {"model", 'd', "{}", N},
    {"overlong_buffer", 'd', "{}", N},
    {"num_workers", 'i', "null", N}, {"reward_manager", 's', "null", N}, {"reward_loop_source", 's', "null", N},
    {"reward_loop_module_path", 's', "null", N}, {"reward_loop_class_name", 's', "null", N},
    {"use_reward_loop", 'b', "true", N},
};

/// The FSDP reward model of old releases.
constexpr Row kRewardFsdp[] = {
    {"enable", 'b', "false", M},
    {"strategy", 's', "fsdp", M},
    {"model.path", 's', "~/models/FsfairX-LLaMA3-RM-v0.1", M},
    {"model.input_tokenizer", 's', "null", N},
    {"model.external_lib", 's', "null", N},
    {"model.trust_remote_code", 'b', "false", N},
    {"model.use_shm", 'b', "false", M},
    {"model.use_remove_padding", 'b', "false", M},
    {"model.use_fused_kernels", 'b', "false", N},
    {"overlong_buffer", 'd', "{}", N},  // DAPO's penalty, no model
    {"mini_batch_size", 'i', "null", N}, {"prime_granularity", 's', "token", N}, {"prime_norm", 's', "batch_norm", N},
    {"micro_batch_size", 'i', "null", M},
    {"micro_batch_size_per_gpu", 'i', "null", M},
    {"max_length", 'i', "null", N},
    {"use_dynamic_bsz", 'b', "${critic.use_dynamic_bsz}", M},
    {"forward_max_token_len_per_gpu", 'i', "${critic.forward_max_token_len_per_gpu}", M},
    {"ulysses_sequence_parallel_size", 'i', "1", M},
    {"reward_manager", 's', "naive", N}, {"launch_reward_fn_async", 'b', "false", N}, {"reward_kwargs", 'd', "{}", N},
    {"sandbox_fusion", 'd', "{}", N}, {"profiler", 'd', "{}", N}, {"megatron", 'd', "{}", N},
    {"enable_resource_pool", 'b', "false", M}, {"n_gpus_per_node", 'i', "0", N}, {"nnodes", 'i', "0", N},
};

constexpr Row kRoot[] = {
    {"actor_rollout_ref.hybrid_engine", 'b', "true", M},
    {"actor_rollout_ref.nccl_timeout", 'i', "600", N},
    {"actor_rollout_ref.profiler", 'd', "{}", N},
    {"data.max_prompt_length", 'i', "512", M},
    {"data.max_response_length", 'i', "512", M},
    {"data.train_batch_size", 'i', "1024", M},
    {"data.gen_batch_size", 'i', "null", M},
    {"data.val_batch_size", 'i', "null", N},
    {"data", 'd', "{}", N},
    {"algorithm.adv_estimator", 's', "gae", M},
    {"algorithm.use_kl_in_reward", 'b', "false", M},
    {"algorithm.rollout_correction.bypass_mode", 'b', "false", M, v7},
    {"algorithm", 'd', "{}", N},
    {"trainer.n_gpus_per_node", 'i', "8", M},
    {"trainer.nnodes", 'i', "1", M},
    {"trainer.save_freq", 'i', "-1", M},
    {"trainer.test_freq", 'i', "-1", M},
    {"trainer.val_before_train", 'b', "true", M},
    {"trainer.critic_warmup", 'i', "0", M},
    {"trainer.resume_mode", 's', "auto", M},
    {"trainer.resume_from_path", 's', "null", N},
    {"trainer.use_legacy_worker_impl", 's', "auto", M, v5, v8},
    {"trainer.use_v1", 'b', "true", M, v9},
    {"trainer.v1.trainer_mode", 's', "sync", M, v9},
    {"trainer.device", 's', "cuda", M, v5},
    {"trainer", 'd', "{}", N},
    {"rollout.nnodes", 'i', "null", M, v5},  // trainers with pools of their own
    {"rollout.n_gpus_per_node", 'i', "null", M, v5},
    {"rollout", 'd', "{}", N, v5},
    {"async_training.require_batches", 'i', "null", M, v6},
    {"async_training.use_rollout_log_probs", 'b', "true", M, v6},
    {"async_training.compute_prox_log_prob", 'b', "false", M, v6},
    {"async_training", 'd', "{}", N, v6},
    {"distillation.enabled", 'b', "false", M, v8},
    {"distillation.nnodes", 'i', "0", M, v8},
    {"distillation.n_gpus_per_node", 'i', "8", M, v8},
    {"distillation.teacher_models", 'd', "{}", M, v8},
    {"distillation.distillation_loss.loss_mode", 's', "k3", M, v8},
    {"distillation.distillation_loss.use_policy_gradient", 'b', "false", M, v8},
    {"distillation", 'd', "{}", N, v8},
    {"model_engine", 's', "null", M, v8},
    {"reward.num_workers", 'i', "8", M, v71},
    {"reward", 'd', "{}", N, v71},
    {"custom_reward_function", 'd', "{}", N},
    {"sandbox_fusion", 'd', "{}", N},
    {"transfer_queue", 'd', "{}", N},
    {"global_profiler", 'd', "{}", N},
    {"skip", 'd', "{}", N},
    {"ray_init", 'd', "{}", N},
    {"ray_kwargs.ray_init.runtime_env.env_vars.PYTORCH_CUDA_ALLOC_CONF", 's', "null", M, v6},
    {"ray_kwargs.ray_init.runtime_env.env_vars.PYTORCH_ALLOC_CONF", 's', "null", M, v6},
    {"ray_kwargs", 'd', "{}", N},
    {"hydra", 'd', "{}", N},
    {"defaults", 'l', "null", N},
    // Headroom's own section: verl does not read it.
    {"headroom.gpu", 's', "null", M},
    {"headroom.model_config", 'd', "{}", M},
    {"headroom.resumed", 'b', "null", M},
    {"headroom.versions.verl", 's', "null", M},
    {"headroom.versions.torch", 's', "null", M},
    {"headroom.versions.transformers", 's', "null", M},
    {"headroom.versions.vllm", 's', "null", M},
    {"headroom.versions.sglang", 's', "null", M},
    {"headroom.versions.cuda", 's', "null", M},
    {"headroom.versions.nccl", 's', "null", M},
};

struct Section {
  std::string_view prefix;
  std::span<const Row> rows;
  Version since = v0, until = vv;
};

const Section kSections[] = {
    {"", kRoot},
    {"actor_rollout_ref.model", kModel},
    {"actor_rollout_ref.actor", kActor},
    {"actor_rollout_ref.actor.fsdp_config", kFsdp},
    {"actor_rollout_ref.actor.megatron", kMegatron},
    {"actor_rollout_ref.actor.optim", kOptimizer},
    {"actor_rollout_ref.actor.checkpoint", kCheckpoint},
    {"actor_rollout_ref.ref", kRef},
    {"actor_rollout_ref.ref.fsdp_config", kFrozenFsdp},
    {"actor_rollout_ref.ref.fsdp_config", kFsdp},
    {"actor_rollout_ref.ref.megatron", kRefMegatron},
    {"actor_rollout_ref.ref.megatron", kMegatron},
    {"actor_rollout_ref.rollout", kRollout},
    {"critic", kCritic},
    {"critic.model", kCriticModel},
    {"critic.model", kModel},
    {"critic.model.fsdp_config", kFsdp, v0, v8},
    {"critic.fsdp", kFsdp, v8},
    {"critic.megatron", kMegatron},
    {"critic.optim", kOptimizer},
    {"critic.checkpoint", kCheckpoint},
    {"reward_model", kRewardFsdp, v0, v7},
    {"reward_model.model.fsdp_config", kFrozenFsdp, v0, v7},
    {"reward_model.model.fsdp_config", kRewardUlysses, v0, v7},
    {"reward_model.model.fsdp_config", kFsdp, v0, v7},
    {"reward_model", kRewardModelPath, v7},
    {"reward_model", kRewardEngine, v7},  // since 0.7.1 read for reward.reward_model where it is switched on
    {"reward.reward_model", kRewardEngine, v71},
};

// clang-format on

Kind kind_of(char letter) {
  switch (letter) {
    case 'b':
      return Kind::boolean;
    case 'i':
      return Kind::integer;
    case 'f':
      return Kind::number;
    case 'l':
      return Kind::list;
    case 'd':
      return Kind::map;
    default:
      return Kind::text;
  }
}

std::vector<Key> expanded() {
  std::vector<Key> out;
  for (const Section& section : kSections) {
    for (const Row& row : section.rows) {
      Key key;
      key.path =
          section.prefix.empty() ? std::string(row.key) : fmt::format("{}.{}", section.prefix, row.key);
      key.kind = kind_of(row.type);
      key.fallback = row.fallback;
      key.effect = row.effect;
      key.since = std::max(section.since, row.since);
      key.until = std::min(section.until, row.until);
      if (key.since < key.until) out.push_back(std::move(key));
    }
  }
  // Stable: of two sections with one prefix the earlier one's row comes first and wins.
  std::stable_sort(out.begin(), out.end(), [](const Key& a, const Key& b) {
    return a.path != b.path ? a.path < b.path : a.since < b.since;
  });
  // What that one covers whole is never found.
  std::vector<Key> found;
  for (Key& key : out)
    if (found.empty() || found.back().path != key.path || found.back().until < key.until)
      found.push_back(std::move(key));
  return found;
}

const std::vector<Key>& table() {
  static const std::vector<Key> keys = expanded();
  return keys;
}

std::span<const Key> rows_of(std::string_view path) {
  const auto& all = table();
  const auto first =
      std::lower_bound(all.begin(), all.end(), path,
                       [](const Key& key, std::string_view wanted) { return key.path < wanted; });
  auto last = first;
  while (last != all.end() && last->path == path) ++last;
  return {first, last};
}

}  // namespace

std::span<const Key> keys() {
  return table();
}

const Key* find_key(std::string_view path, const Version& release) {
  const auto rows = rows_of(path);
  for (const Key& key : rows)
    if (key.since <= release && release < key.until) return &key;
  if (!rows.empty()) return release < rows.front().since ? &rows.front() : &rows.back();
  for (std::size_t dot = path.rfind('.'); dot != std::string_view::npos; dot = path.rfind('.', dot - 1)) {
    for (const Key& key : rows_of(path.substr(0, dot)))
      if (key.kind == Kind::map) return &key;
    if (dot == 0) break;
  }
  return nullptr;
}

Document defaults(const Version& release) {
  Document tree = Document::map();
  for (const Key& key : keys()) {
    if (release < key.since || release >= key.until || tree.find_path(key.path) != nullptr) continue;
    Result<Document> value = parse_value(key.fallback);
    tree.set_path(key.path, value ? std::move(*value) : Document::null());
  }
  return tree;
}

}  // namespace headroom::verl

#include <initializer_list>

#include "planner/frameworks/nemo_rl/settings.h"

namespace headroom::nemo_rl {
namespace {

using settings::Effect;
using settings::Key;
using settings::Row;

constexpr Release v2{0, 2, 0}, v3{0, 3, 0}, v4{0, 4, 0}, v5{0, 5, 0}, v6{0, 6, 0}, v7{0, 7, 0}, v8{0, 8, 0};
constexpr Release kAny = settings::kFirst, kEver = settings::kNever;
constexpr std::int64_t kMost = std::int64_t{1} << 30;

/// A key that decides neither memory nor time.
template <typename S>
constexpr Row<S> none(std::string_view key, std::string_view why = {}) {
  return {.key = key, .effect = Effect::none, .note = why};
}
/// A key that would change memory and that no program models.
template <typename S>
constexpr Row<S> missing(std::string_view key, std::string_view fallback, std::string_view what,
                         Release since = kAny) {
  return {.key = key, .fallback = fallback, .effect = Effect::unmodelled, .note = what, .since = since};
}

// clang-format off

/// Below `policy.`, `value.` and `teacher.`.
constexpr Row<Policy> kPolicy[] = {
    {.key = "model_name", .member = [](Policy& p) -> std::string& { return p.model; }},
    {.key = "train_global_batch_size", .member = [](Policy& p) -> std::int64_t& { return p.global_batch; }, .fallback = "512", .least = 1},
    {.key = "train_micro_batch_size", .member = [](Policy& p) -> std::int64_t& { return p.micro_batch; }, .fallback = "4", .least = 1},
    {.key = "logprob_batch_size", .member = [](Policy& p) -> std::int64_t& { return p.logprob_batch; }, .fallback = "4", .least = 1, .until = v6},
    {.key = "logprob_batch_size", .member = [](Policy& p) -> std::int64_t& { return p.logprob_batch; }, .fallback = "${.train_micro_batch_size}", .least = 1, .since = v6},
    {.key = "max_total_sequence_length", .member = [](Policy& p) -> std::int64_t& { return p.length; }, .fallback = "512", .least = 1, .most = 1 << 24},
    {.key = "precision", .member = [](Policy& p) -> std::string& { return p.precision; }, .fallback = "bfloat16"},
    {.key = "logprob_chunk_size", .member = [](Policy& p) -> std::optional<std::int64_t>& { return p.logprob_chunk; }, .least = 1},
    {.key = "offload_optimizer_for_logprob", .member = [](Policy& p) -> bool& { return p.offload_optimizer_for_logprob; }, .fallback = "false", .since = v5},
    {.key = "refit_buffer_size_gb", .member = [](Policy& p) -> double& { return p.refit_buffer_gb; }, .fallback = "4", .until = v3},
    {.key = "refit_buffer_size_gb", .effect = Effect::none, .note = "releases 0.3.1 to 0.6 accept the key and never read it", .since = v3, .until = v7},
    {.key = "refit_buffer_size_gb", .member = [](Policy& p) -> double& { return p.refit_buffer_gb; }, .since = v7},
    {.key = "make_sequence_length_divisible_by", .member = [](Policy& p) -> std::int64_t& { return p.divisible_by; }, .fallback = "1", .least = 1},
    {.key = "max_grad_norm", .member = [](Policy& p) -> double& { return p.max_grad_norm; }, .fallback = "1.0"},
    {.key = "dynamic_batching.enabled", .member = [](Policy& p) -> bool& { return p.dynamic.enabled; }, .fallback = "false"},
    {.key = "dynamic_batching.train_mb_tokens", .member = [](Policy& p) -> std::int64_t& { return p.dynamic.train_tokens; }, .fallback = "${mul:${..max_total_sequence_length},${..train_micro_batch_size}}", .least = 1},
    {.key = "dynamic_batching.logprob_mb_tokens", .member = [](Policy& p) -> std::int64_t& { return p.dynamic.logprob_tokens; }, .fallback = "${mul:${..max_total_sequence_length},${..logprob_batch_size}}", .least = 1},
    {.key = "dynamic_batching.sequence_length_round", .member = [](Policy& p) -> std::int64_t& { return p.dynamic.round; }, .fallback = "64", .least = 1},
    {.key = "sequence_packing.enabled", .member = [](Policy& p) -> bool& { return p.packing.enabled; }, .fallback = "false"},
    {.key = "sequence_packing.train_mb_tokens", .member = [](Policy& p) -> std::int64_t& { return p.packing.train_tokens; }, .fallback = "${mul:${..max_total_sequence_length},${..train_micro_batch_size}}", .least = 1},
    {.key = "sequence_packing.logprob_mb_tokens", .member = [](Policy& p) -> std::int64_t& { return p.packing.logprob_tokens; }, .fallback = "${mul:${..max_total_sequence_length},${..logprob_batch_size}}", .least = 1},
    none<Policy>("sequence_packing", "how rows are filled"),
    none<Policy>("dynamic_batching"),
    {.key = "optimizer.name", .member = [](Policy& p) -> std::string& { return p.optimizer; }, .fallback = "torch.optim.AdamW"},
    {.key = "optimizer.kwargs.foreach", .member = [](Policy& p) -> std::string& { return p.foreach_; }},
    {.key = "optimizer.kwargs.fused", .member = [](Policy& p) -> std::string& { return p.fused; }},
    {.key = "optimizer.kwargs.exp_avg_dtype", .member = [](Policy& p) -> std::string& { return p.moments; }},
    {.key = "optimizer.kwargs.exp_avg_sq_dtype", .member = [](Policy& p) -> std::string& { return p.square_moments; }},
    {.key = "optimizer.kwargs.master_weights", .member = [](Policy& p) -> bool& { return p.keeps_master; }, .fallback = "false"},
    {.key = "optimizer.kwargs.store_param_remainders", .member = [](Policy& p) -> bool& { return p.keeps_remainders; }, .fallback = "false"},
    none<Policy>("optimizer"),
    {.key = "fsdp_offload_enabled", .member = [](Policy& p) -> bool& { return p.fsdp1_offload; }, .fallback = "false", .until = v3},
    {.key = "activation_checkpointing_enabled", .member = [](Policy& p) -> bool& { return p.fsdp1_checkpointing; }, .fallback = "false", .until = v3},
    none<Policy>("tokenizer"), none<Policy>("scheduler"),
    none<Policy>("generation_batch_size", "only the generation that no release has any more reads it"),
    none<Policy>("hf_config_overrides", "given to the model"),
    none<Policy>("real_quant"), none<Policy>("offload_optimizer_for_refit"),
    missing<Policy>("draft.enabled", "false", "a draft model is trained beside the policy", v6),
    none<Policy>("draft"),
    none<Policy>("reward_model_cfg", "the algorithm decides which head a model has"),
    missing<Policy>("quant_cfg", "null", "quantisation-aware training"),
    none<Policy>("router_replay", "routes of experts are a few numbers a token"),
};

constexpr Row<Dtensor> kDtensor[] = {
    {.key = "enabled", .member = [](Dtensor& d) -> bool& { return d.enabled; }, .fallback = "true"},
    {.key = "_v2", .member = [](Dtensor& d) -> bool& { return d.second; }, .fallback = "false", .since = v4},
    {.key = "cpu_offload", .member = [](Dtensor& d) -> bool& { return d.cpu_offload; }, .fallback = "false"},
    {.key = "sequence_parallel", .member = [](Dtensor& d) -> bool& { return d.sequence_parallel; }, .fallback = "false"},
    {.key = "activation_checkpointing", .member = [](Dtensor& d) -> bool& { return d.activation_checkpointing; }, .fallback = "false"},
    {.key = "tensor_parallel_size", .member = [](Dtensor& d) -> std::int64_t& { return d.tensor; }, .fallback = "1", .least = 1},
    {.key = "context_parallel_size", .member = [](Dtensor& d) -> std::int64_t& { return d.context; }, .fallback = "1", .least = 1, .since = v3},
    {.key = "expert_parallel_size", .member = [](Dtensor& d) -> std::int64_t& { return d.expert; }, .fallback = "1", .least = 1, .since = v4},
    {.key = "dp_replicate_size", .member = [](Dtensor& d) -> std::int64_t& { return d.replicate; }, .fallback = "1", .least = 1, .since = v6},
    {.key = "clear_cache_every_n_steps", .member = [](Dtensor& d) -> std::optional<std::int64_t>& { return d.clear_cache_every; }, .least = 1},
    {.key = "automodel_kwargs.use_liger_kernel", .member = [](Dtensor& d) -> bool& { return d.liger; }, .fallback = "false", .since = v5},
    {.key = "lora_cfg.enabled", .member = [](Dtensor& d) -> bool& { return d.lora.enabled; }, .fallback = "false", .since = v5},
    {.key = "lora_cfg.dim", .member = [](Dtensor& d) -> std::int64_t& { return d.lora.dim; }, .fallback = "8", .least = 1, .most = 65536, .since = v5},
    none<Dtensor>("lora_cfg.alpha", "a factor"),
    {.key = "lora_cfg.match_all_linear", .member = [](Dtensor& d) -> bool& { return d.lora.all_linear; }, .fallback = "true", .since = v5},
    {.key = "lora_cfg.target_modules", .member = [](Dtensor& d) -> std::vector<std::string>& { return d.lora.targets; }, .since = v5},
    {.key = "lora_cfg.exclude_modules", .member = [](Dtensor& d) -> std::vector<std::string>& { return d.lora.excluded; }, .since = v5},
    none<Dtensor>("lora_cfg"),
    {.key = "env_vars.PYTORCH_CUDA_ALLOC_CONF", .member = [](Dtensor& d) -> std::string& { return d.allocator_settings; }},
    missing<Dtensor>("pipeline_parallel_size", "1", "stages of a pipeline under FSDP2", v7),
    none<Dtensor>("env_vars"), none<Dtensor>("automodel_kwargs"), none<Dtensor>("custom_parallel_plan"), none<Dtensor>("use_hf_tp_plan"),
    none<Dtensor>("defer_fsdp_grad_sync", "the training loop never switches the synchronisation off"),
};

constexpr Row<Megatron> kMegatron[] = {
    {.key = "enabled", .member = [](Megatron& m) -> bool& { return m.enabled; }, .fallback = "false", .since = v3},
    {.key = "empty_unused_memory_level", .member = [](Megatron& m) -> std::int64_t& { return m.empty_level; }, .fallback = "0", .least = 0, .most = 2, .until = v5},
    {.key = "empty_unused_memory_level", .member = [](Megatron& m) -> std::int64_t& { return m.empty_level; }, .fallback = "1", .least = 0, .most = 2, .since = v5},
    {.key = "activation_checkpointing", .member = [](Megatron& m) -> bool& { return m.activation_checkpointing; }, .fallback = "false"},
    {.key = "recompute_granularity", .member = [](Megatron& m) -> std::string& { return m.granularity; }, .fallback = "full", .since = v6},
    {.key = "recompute_modules", .member = [](Megatron& m) -> std::vector<std::string>& { return m.recompute_modules; }, .since = v6},
    {.key = "tensor_model_parallel_size", .member = [](Megatron& m) -> std::int64_t& { return m.tensor; }, .fallback = "1", .least = 1},
    {.key = "pipeline_model_parallel_size", .member = [](Megatron& m) -> std::int64_t& { return m.pipeline; }, .fallback = "1", .least = 1},
    {.key = "virtual_pipeline_model_parallel_size", .member = [](Megatron& m) -> std::int64_t& { return m.virtual_pipeline; }, .fallback = "1", .least = 1},
    {.key = "context_parallel_size", .member = [](Megatron& m) -> std::int64_t& { return m.context; }, .fallback = "1", .least = 1},
    {.key = "expert_model_parallel_size", .member = [](Megatron& m) -> std::int64_t& { return m.expert; }, .fallback = "1", .least = 1},
    {.key = "expert_tensor_parallel_size", .member = [](Megatron& m) -> std::int64_t& { return m.expert_tensor; }, .fallback = "1", .least = 1},
    {.key = "num_layers_in_first_pipeline_stage", .member = [](Megatron& m) -> std::optional<std::int64_t>& { return m.first_stage_layers; }, .least = 1},
    {.key = "num_layers_in_last_pipeline_stage", .member = [](Megatron& m) -> std::optional<std::int64_t>& { return m.last_stage_layers; }, .least = 1},
    {.key = "account_for_embedding_in_pipeline_split", .member = [](Megatron& m) -> bool& { return m.account_for_embedding; }, .fallback = "false"},
    {.key = "account_for_loss_in_pipeline_split", .member = [](Megatron& m) -> bool& { return m.account_for_loss; }, .fallback = "false"},
    {.key = "sequence_parallel", .member = [](Megatron& m) -> bool& { return m.sequence_parallel; }, .fallback = "false"},
    {.key = "apply_rope_fusion", .member = [](Megatron& m) -> bool& { return m.rope_fusion; }, .fallback = "true"},
    {.key = "bias_activation_fusion", .member = [](Megatron& m) -> bool& { return m.activation_fusion; }, .fallback = "true"},
    {.key = "gradient_accumulation_fusion", .member = [](Megatron& m) -> bool& { return m.accumulation_fusion; }, .fallback = "true", .until = v6},
    {.key = "gradient_accumulation_fusion", .member = [](Megatron& m) -> bool& { return m.accumulation_fusion; }, .fallback = "false", .since = v6},
    {.key = "defer_fp32_logits", .member = [](Megatron& m) -> bool& { return m.defer_fp32_logits; }, .fallback = "false"},
    {.key = "use_fused_linear_logprobs", .member = [](Megatron& m) -> bool& { return m.fused_linear_logprobs; }, .fallback = "false", .since = v8},
    {.key = "fused_linear_logprobs_chunk_size", .member = [](Megatron& m) -> std::int64_t& { return m.fused_chunk; }, .fallback = "256", .least = 1, .since = v8},
    {.key = "use_linear_ce_fusion_loss", .member = [](Megatron& m) -> bool& { return m.fused_linear_logprobs; }, .fallback = "false", .since = v7, .until = v8},
    {.key = "linear_ce_fusion_chunk_size", .member = [](Megatron& m) -> std::int64_t& { return m.fused_chunk; }, .fallback = "256", .least = 1, .since = v7, .until = v8},
    {.key = "optimizer.optimizer", .member = [](Megatron& m) -> std::string& { return m.optimizer; }, .fallback = "adam"},
    {.key = "optimizer.use_distributed_optimizer", .member = [](Megatron& m) -> bool& { return m.distributed; }, .fallback = "true"},
    {.key = "optimizer.use_precision_aware_optimizer", .member = [](Megatron& m) -> bool& { return m.precision_aware; }, .fallback = "true"},
    {.key = "optimizer.exp_avg_dtype", .member = [](Megatron& m) -> DType& { return m.exp_avg; }, .fallback = "fp32"},
    {.key = "optimizer.optimizer_cpu_offload", .member = [](Megatron& m) -> bool& { return m.optimizer_cpu_offload; }, .fallback = "false", .since = v4},
    {.key = "optimizer.optimizer_offload_fraction", .member = [](Megatron& m) -> double& { return m.optimizer_offload_fraction; }, .fallback = "0.0", .since = v4},
    none<Megatron>("optimizer"),
    {.key = "distributed_data_parallel_config.grad_reduce_in_fp32", .member = [](Megatron& m) -> bool& { return m.grad_reduce_in_fp32; }, .fallback = "false"},
    missing<Megatron>("distributed_data_parallel_config.use_custom_fsdp", "false", "Megatron's own FSDP"),
    none<Megatron>("distributed_data_parallel_config", "read by Megatron's own FSDP alone, or it moves communication"),
    {.key = "peft.enabled", .member = [](Megatron& m) -> bool& { return m.peft.enabled; }, .fallback = "false", .since = v5},
    {.key = "peft.dim", .member = [](Megatron& m) -> std::int64_t& { return m.peft.dim; }, .fallback = "8", .least = 1, .most = 65536, .since = v5},
    none<Megatron>("peft.alpha", "a factor"),
    {.key = "peft.target_modules", .member = [](Megatron& m) -> std::vector<std::string>& { return m.peft.targets; }, .since = v5},
    none<Megatron>("peft"),
    {.key = "fp8_cfg.enabled", .member = [](Megatron& m) -> bool& { return m.fp8; }, .fallback = "false"},
    {.key = "fp8_cfg.fp8_param", .member = [](Megatron& m) -> bool& { return m.fp8_parameters; }, .fallback = "false"},
    none<Megatron>("fp8_cfg"),
    {.key = "mtp_num_layers", .member = [](Megatron& m) -> std::int64_t& { return m.mtp_layers; }, .fallback = "0", .least = 0, .most = 100},
    missing<Megatron>("cuda_graph_impl", "none", "CUDA graphs of the training", v8),
    missing<Megatron>("fine_grained_activation_offloading", "false", "activations of single modules on the host", v8),
    {.key = "moe_enable_deepep", .member = [](Megatron& m) -> bool& { return m.deepep; }, .fallback = "false"},
    {.key = "moe_token_dispatcher_type", .member = [](Megatron& m) -> std::string& { return m.dispatcher; }, .fallback = "alltoall"},
    {.key = "moe_permute_fusion", .member = [](Megatron& m) -> bool& { return m.permute_fusion; }, .fallback = "false", .until = v7},
    {.key = "moe_permute_fusion", .member = [](Megatron& m) -> bool& { return m.permute_fusion; }, .fallback = "true", .since = v7},
    {.key = "distributed_data_parallel_config.overlap_grad_reduce", .member = [](Megatron& m) -> bool& { return m.overlap_grad_reduce; }, .fallback = "true"},
    {.key = "env_vars.PYTORCH_CUDA_ALLOC_CONF", .member = [](Megatron& m) -> std::string& { return m.allocator_settings; }},
    none<Megatron>("env_vars"), none<Megatron>("scheduler"), none<Megatron>("checkpoint"), none<Megatron>("model_overrides"),
    none<Megatron>("converter_type"), none<Megatron>("pipeline_dtype"), none<Megatron>("attention_backend"),
    none<Megatron>("moe_router_dtype"), none<Megatron>("freeze_moe_router"), none<Megatron>("moe_router_load_balancing_type"), none<Megatron>("moe_router_bias_update_rate"),
    none<Megatron>("moe_per_layer_logging"), none<Megatron>("moe_shared_expert_overlap"), none<Megatron>("use_gloo_process_groups"),
    none<Megatron>("force_reconvert_from_hf"), none<Megatron>("offload_modules"), none<Megatron>("cuda_graph_modules"), none<Megatron>("cuda_graph_warmup_steps"),
    none<Megatron>("mtp_loss_scaling_factor"), none<Megatron>("mtp_detach_heads"),
    missing<Megatron>("mtp_use_repeated_layer", "false", "one layer that predicts every depth"),
    none<Megatron>("train_iters"), none<Megatron>("use_fused_weighted_squared_relu"), none<Megatron>("clear_memory_caches_before_refit"),
};

constexpr Row<Generation> kGeneration[] = {
    {.key = "backend", .member = [](Generation& g) -> std::string& { return g.backend; }, .fallback = "vllm"},
    {.key = "max_new_tokens", .member = [](Generation& g) -> std::int64_t& { return g.max_new_tokens; }, .fallback = "${policy.max_total_sequence_length}", .least = 1, .most = 1 << 24},
    {.key = "temperature", .member = [](Generation& g) -> double& { return g.temperature; }, .fallback = "1.0"},
    {.key = "colocated.enabled", .member = [](Generation& g) -> bool& { return g.colocated; }, .fallback = "true", .since = v3},
    {.key = "colocated.resources.gpus_per_node", .member = [](Generation& g) -> std::optional<std::int64_t>& { return g.gpus_per_node; }, .least = 1, .most = 1024, .since = v3},
    {.key = "colocated.resources.num_nodes", .member = [](Generation& g) -> std::optional<std::int64_t>& { return g.nodes; }, .least = 1, .most = 100000, .since = v3},
    {.key = "vllm_cfg.async_engine", .member = [](Generation& g) -> bool& { return g.async_engine; }, .fallback = "false", .since = v3},
    {.key = "vllm_cfg.precision", .member = [](Generation& g) -> std::string& { return g.precision; }, .fallback = "${policy.precision}"},
    {.key = "vllm_cfg.kv_cache_dtype", .member = [](Generation& g) -> std::string& { return g.kv_cache_dtype; }, .fallback = "auto", .since = v5},
    {.key = "vllm_cfg.tensor_parallel_size", .member = [](Generation& g) -> std::int64_t& { return g.tensor; }, .fallback = "1", .least = 1},
    {.key = "vllm_cfg.pipeline_parallel_size", .member = [](Generation& g) -> std::int64_t& { return g.pipeline; }, .fallback = "1", .least = 1},
    {.key = "vllm_cfg.expert_parallel_size", .member = [](Generation& g) -> std::int64_t& { return g.expert; }, .fallback = "1", .least = 1, .since = v4},
    {.key = "vllm_cfg.gpu_memory_utilization", .member = [](Generation& g) -> double& { return g.utilization; }, .fallback = "0.6"},
    {.key = "vllm_cfg.max_model_len", .member = [](Generation& g) -> std::int64_t& { return g.max_model_len; }, .fallback = "${policy.max_total_sequence_length}", .least = 1, .most = 1 << 24},
    {.key = "vllm_cfg.enforce_eager", .member = [](Generation& g) -> bool& { return g.enforce_eager; }, .fallback = "false", .since = v3},
    none<Generation>("vllm_cfg"),
    {.key = "vllm_kwargs.max_num_seqs", .member = [](Generation& g) -> std::optional<std::int64_t>& { return g.max_num_seqs; }, .least = 1},
    {.key = "vllm_kwargs.max_num_batched_tokens", .member = [](Generation& g) -> std::optional<std::int64_t>& { return g.max_num_batched_tokens; }, .least = 1},
    {.key = "vllm_kwargs.block_size", .member = [](Generation& g) -> std::optional<std::int64_t>& { return g.block_size; }, .least = 1, .most = 65536},
    {.key = "vllm_kwargs.num_gpu_blocks_override", .member = [](Generation& g) -> std::optional<std::int64_t>& { return g.blocks_override; }, .least = 1},
    {.key = "vllm_kwargs.kv_cache_memory_bytes", .member = [](Generation& g) -> std::optional<std::int64_t>& { return g.kv_cache_memory_bytes; }, .least = 1, .most = std::int64_t{1} << 50},
    missing<Generation>("vllm_kwargs.speculative_config", "null", "a draft model in the engine"),
    none<Generation>("vllm_kwargs", "passed to the engine; no memory of it is known to change"),
    {.key = "sglang_cfg.mem_fraction_static", .member = [](Generation& g) -> double& { return g.sglang_fraction; }, .fallback = "0.7", .since = v6},
    {.key = "sglang_cfg.gpus_per_server", .member = [](Generation& g) -> std::int64_t& { return g.sglang_tensor; }, .fallback = "1", .least = 1, .since = v6},
    none<Generation>("sglang_cfg"),
    {.key = "mcore_generation_config.buffer_size_gb", .member = [](Generation& g) -> double& { return g.mcore_buffer_gb; }, .fallback = "20", .until = v6},
    {.key = "mcore_generation_config.buffer_size_gb", .member = [](Generation& g) -> double& { return g.mcore_buffer_gb; }, .fallback = "10", .since = v6},
    none<Generation>("mcore_generation_config"),
    none<Generation>(""),
};

/// At the root.
constexpr Row<Settings> kRoot[] = {
    {.key = "cluster.num_nodes", .member = [](Settings& s) -> std::int64_t& { return s.nodes; }, .fallback = "1", .least = 1, .most = 1'000'000},
    {.key = "cluster.gpus_per_node", .member = [](Settings& s) -> std::int64_t& { return s.gpus_per_node; }, .fallback = "1", .least = 1, .most = 1024},
    none<Settings>("cluster"),
    {.key = "data.max_input_seq_length", .member = [](Settings& s) -> std::int64_t& { return s.prompt_length; }, .fallback = "${policy.max_total_sequence_length}", .least = 1, .most = 1 << 24},
    {.key = "data.num_workers", .member = [](Settings& s) -> std::int64_t& { return s.loader_workers; }, .fallback = "1", .least = 0, .most = 100000},
    none<Settings>("data"), none<Settings>("env"), none<Settings>("logger"), none<Settings>("reward_penalties"),
    {.key = "checkpointing.enabled", .member = [](Settings& s) -> bool& { return s.saves; }, .fallback = "true"},
    {.key = "checkpointing.save_period", .member = [](Settings& s) -> std::int64_t& { return s.save_period; }, .fallback = "10", .least = 1},
    {.key = "checkpointing.save_consolidated", .member = [](Settings& s) -> bool& { return s.consolidated; }, .fallback = "false"},
    none<Settings>("checkpointing"),
    {.key = "loss_fn.force_on_policy_ratio", .member = [](Settings& s) -> bool& { return s.on_policy; }, .fallback = "false", .since = v5},
    {.key = "loss_fn.use_kl_in_reward", .member = [](Settings& s) -> bool& { return s.kl_in_reward; }, .fallback = "false", .since = v6},
    none<Settings>("data_plane"),
    missing<Settings>("on_policy_distillation", "null", "teachers that score rollouts", v8),
    {.key = "headroom.gpu", .member = [](Settings& s) -> std::string& { return s.gpu; }},
    {.key = "headroom.resumed", .member = [](Settings& s) -> bool& { return s.resumed; }, .fallback = "false"},
    none<Settings>("headroom.versions"), none<Settings>("defaults"), none<Settings>("value_loss_fn"), none<Settings>("loss_fn"),
};

/// Below the algorithm's own section.
constexpr Row<Settings> kRollouts[] = {
    {.key = "num_prompts_per_step", .member = [](Settings& s) -> std::int64_t& { return s.prompts; }, .fallback = "32", .least = 1},
    {.key = "num_generations_per_prompt", .member = [](Settings& s) -> std::int64_t& { return s.samples; }, .fallback = "16", .least = 1, .most = 1'000'000},
    {.key = "skip_reference_policy_logprobs_calculation", .member = [](Settings& s) -> bool& { return s.skip_reference; }, .fallback = "false", .since = v6},
    {.key = "async_grpo.enabled", .member = [](Settings& s) -> bool& { return s.async; }, .fallback = "false", .since = v4},
    // Without defaults: what is not given must leave the other algorithm's key alone.
    {.key = "async_ppo.enabled", .member = [](Settings& s) -> bool& { return s.async; }, .since = v8},
    {.key = "async_ppo.max_trajectory_age_steps", .member = [](Settings& s) -> std::int64_t& { return s.age; }, .least = 1, .most = 1000, .since = v8},
    {.key = "async_ppo.in_flight_weight_updates", .member = [](Settings& s) -> bool& { return s.in_flight; }, .since = v8},
    {.key = "async_grpo.max_trajectory_age_steps", .member = [](Settings& s) -> std::int64_t& { return s.age; }, .fallback = "1", .least = 1, .most = 1000, .since = v4},
    {.key = "async_grpo.in_flight_weight_updates", .member = [](Settings& s) -> bool& { return s.in_flight; }, .fallback = "false", .since = v5},
    {.key = "ppo_epochs", .member = [](Settings& s) -> std::int64_t& { return s.ppo_epochs; }, .fallback = "1", .least = 1, .most = 10000},
    {.key = "policy_training_start_step", .member = [](Settings& s) -> std::int64_t& { return s.policy_starts_at; }, .fallback = "0", .least = 0},
    none<Settings>("", "decides no tensor's size: validation generates as a step does"),
};

constexpr Row<Settings> kSupervised[] = {
    none<Settings>("", "decides no tensor's size"),
};

constexpr Row<Settings> kPenalty[] = {
    {.key = "reference_policy_kl_penalty", .member = [](Settings& s) -> double& { return s.kl_penalty; }, .fallback = "0"},
};
// clang-format on

constexpr std::string_view kAlgorithms[] = {"grpo", "ppo", "dpo", "sft", "rm", "distillation"};

std::string section_of(Algorithm algorithm) {
  return std::string(kAlgorithms[static_cast<std::size_t>(algorithm)]) + ".";
}

std::span<const Row<Settings>> own_rows(Algorithm algorithm) {
  const bool rollouts =
      algorithm == Algorithm::grpo || algorithm == Algorithm::ppo || algorithm == Algorithm::distillation;
  return rollouts ? std::span<const Row<Settings>>(kRollouts) : std::span<const Row<Settings>>(kSupervised);
}

std::string penalty_section(Algorithm algorithm) {
  return algorithm == Algorithm::dpo ? "dpo." : "loss_fn.";
}

template <typename Visit>
void visit_policy(Policy& policy, const std::string& at, Visit visit) {
  visit(at, std::span<const Row<Policy>>(kPolicy), policy);
  visit(at + "dtensor_cfg.", std::span<const Row<Dtensor>>(kDtensor), policy.dtensor);
  visit(at + "megatron_cfg.", std::span<const Row<Megatron>>(kMegatron), policy.megatron);
}

/// Every section of a run with its rows and where they are read to.
template <typename Visit>
void visit_sections(Settings& s, Visit visit) {
  visit(std::string(), std::span<const Row<Settings>>(kRoot), s);
  visit(section_of(s.algorithm), own_rows(s.algorithm), s);
  visit(penalty_section(s.algorithm), std::span<const Row<Settings>>(kPenalty), s);
  visit_policy(s.policy, "policy.", visit);
  if (s.generates())
    visit(std::string("policy.generation."), std::span<const Row<Generation>>(kGeneration),
          s.policy.generation);
  if (s.algorithm == Algorithm::ppo) visit_policy(s.value, "value.", visit);
  if (s.algorithm == Algorithm::distillation) visit_policy(s.teacher, "teacher.", visit);
}

}  // namespace

std::vector<Key> keys_of(const Settings& settings) {
  std::vector<Key> out;
  Settings copy = settings;
  visit_sections(copy, [&]<typename S>(const std::string& at, std::span<const Row<S>> rows, S& into) {
    if constexpr (std::is_same_v<S, Dtensor>)
      return settings::append_keys(out, at, rows, into.enabled, "another backend runs");
    if constexpr (std::is_same_v<S, Megatron>)
      return settings::append_keys(out, at, rows, into.enabled, "another backend runs");
    settings::append_keys(out, at, rows);
  });
  out.push_back(settings::stated_model_key());
  const auto unused = [&](std::string_view section) {
    out.push_back({.path = std::string(section),
                   .kind = settings::Kind::any,
                   .fallback = "null",
                   .note = "this algorithm does not read it",
                   .effect = Effect::none,
                   .since = kAny,
                   .until = kEver});
  };
  for (std::size_t other = 0; other < std::size(kAlgorithms); ++other)
    if (other != static_cast<std::size_t>(settings.algorithm)) unused(kAlgorithms[other]);
  if (settings.algorithm != Algorithm::ppo) unused("value");
  if (settings.algorithm != Algorithm::distillation) unused("teacher");
  if (!settings.generates()) unused("policy.generation");
  for (std::string_view section : {"value.generation", "teacher.generation"}) unused(section);
  return out;
}

void read_settings(Values& values, Settings& s) {
  visit_sections(s, [&]<typename S>(const std::string& at, std::span<const Row<S>> rows, S& into) {
    if constexpr (std::is_same_v<S, Dtensor> || std::is_same_v<S, Megatron>) {
      // Which backend runs is asked first: the other one's keys are not read.
      into.enabled = values.flag(at + "enabled", into.enabled);
      if (!into.enabled) return;
    }
    settings::read_section(values, at, rows, s.release, into);
  });
}

bool assign(Settings& s, const Setting& setting) {
  bool done = false;
  visit_sections(s, [&]<typename S>(const std::string& at, std::span<const Row<S>> rows, S& into) {
    if (done || !setting.key.starts_with(at)) return;
    done = settings::assign(into, rows, std::string_view(setting.key).substr(at.size()), setting.value);
  });
  return done;
}

}  // namespace headroom::nemo_rl

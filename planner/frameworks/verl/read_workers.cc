#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "planner/frameworks/lora_targets.h"
#include "planner/frameworks/verl/sections.h"
#include "planner/frameworks/verl/settings_reader.h"

namespace headroom::verl {
namespace {

/// Of an adapter that nobody can look at: the larger one of verl's examples.
constexpr std::int64_t kAssumedRank = 64;

}  // namespace

Strategy SettingsReader::strategy(const std::string& key, Strategy fallback) {
  const std::string word = v_.text(key);
  if (word.empty()) return fallback;
  if (word == "fsdp") return Strategy::fsdp;
  if (word == "fsdp2") return Strategy::fsdp2;
  if (word == "megatron") return Strategy::megatron;
  if (word == "veomni" || word == "torchtitan" || word == "fsdp_turbo") {
    not_modelled(key, "the training backend " + word);
    return Strategy::other;
  }
  v_.fail_at(key, fmt::format("expected fsdp, fsdp2 or megatron, found {}", word));
  return fallback;
}

void SettingsReader::backend(Worker& worker, const std::string& fsdp_at, const std::string& megatron_at) {
  if (worker.strategy == Strategy::megatron) {
    worker.megatron = megatron(megatron_at);
  } else {
    worker.fsdp = fsdp(fsdp_at);
    if (worker.strategy == Strategy::fsdp2 && worker.fsdp.wrap_disabled)
      v_.without_effect(fsdp_at + "wrap_policy.disable", "verl's FSDP2 wraps each layer in any case");
  }
}

Fsdp SettingsReader::fsdp(const std::string& at) {
  Fsdp out;
  out.param_offload = v_.flag(at + "param_offload");
  out.optimizer_offload = v_.flag(at + "optimizer_offload");
  out.offload_policy = v_.flag(at + "offload_policy");
  out.reshard_after_forward = v_.flag(at + "reshard_after_forward", true);
  out.forward_prefetch = v_.flag(at + "forward_prefetch");
  out.fsdp_size = v_.integer(at + "fsdp_size", -1, kMost, -1);
  if (v_.optional_text(at + "model_dtype")) out.model_dtype = v_.dtype(at + "model_dtype", DType::fp32);
  const DType dtype = v_.dtype(at + "dtype", DType::bf16);
  out.param_dtype = v_.dtype(at + "mixed_precision.param_dtype", dtype);
  out.reduce_dtype = v_.dtype(at + "mixed_precision.reduce_dtype", DType::fp32);
  out.no_sync = v_.flag(at + "use_no_sync_for_gradient_accumulation", true);
  out.wrap_disabled = v_.flag(at + "wrap_policy.disable");
  out.pad_to_length = v_.flag(at + "pad_to_length");
  out.pad_to_length_bucket = v_.integer(at + "pad_to_length_bucket", 1, kMost, 1024);
  return out;
}

void SettingsReader::read_switches(const std::string& at, const std::string& transformer,
                                   MegatronSwitches& out) {
  if (covered(transformer + "transformer_impl", kLayers, "transformer_engine") == "local")
    out.layers = MegatronLayers::local;
  out.linear_offset = s_.after(0, 7, 0);  // with Megatron-Core 0.15
  out.grouped_experts = v_.flag(transformer + "moe_grouped_gemm", true);
  out.fused_permutation = v_.flag(transformer + "moe_permute_fusion", true);
  const std::string dispatcher = covered(transformer + "moe_token_dispatcher_type", kDispatchers, "alltoall");
  if (dispatcher == "allgather") out.dispatcher = MegatronDispatcher::all_gather;
  if (dispatcher == "flex" || v_.flag(transformer + "moe_enable_deepep", false)) {
    out.dispatcher = MegatronDispatcher::flex;
    s_.assumptions.push_back(transformer +
                             "moe_token_dispatcher_type: DeepEP's and HybridEP's own buffers, which they "
                             "take beside PyTorch, are not counted");
  }
  out.fp8 = !covered(transformer + "fp8", kFp8Formats).empty();
  out.fp8_parameters = v_.flag(transformer + "fp8_param", false) && out.fp8;
  out.overlaps_gradients = v_.flag(at + "override_ddp_config.overlap_grad_reduce", false);
}

Megatron SettingsReader::megatron(const std::string& at) {
  Megatron out;
  out.param_offload = v_.flag(at + "param_offload");
  out.optimizer_offload = v_.flag(at + "optimizer_offload");
  out.tensor = v_.integer(at + "tensor_model_parallel_size", 1, kMost, 1);
  out.pipeline = v_.integer(at + "pipeline_model_parallel_size", 1, kMost, 1);
  out.virtual_pipeline = v_.integer(at + "virtual_pipeline_model_parallel_size", 1, kMost, 1);
  out.context = v_.integer(at + "context_parallel_size", 1, kMost, 1);
  out.expert = v_.integer(at + "expert_model_parallel_size", 1, kMost, 1);
  out.expert_tensor = v_.integer(at + "expert_tensor_parallel_size", 1, kMost, 0);
  out.sequence_parallel = v_.flag(at + "sequence_parallel", true);
  out.distributed_optimizer = v_.flag(at + "use_distributed_optimizer", true);
  const std::string transformer = at + "override_transformer_config.";
  out.recompute_granularity = v_.word(transformer + "recompute_granularity", {"full", "selective"}, "");
  out.recompute_method = v_.word(transformer + "recompute_method", {"uniform", "block"}, "");
  out.recompute_layers = v_.integer(transformer + "recompute_num_layers", 1, kMost, 0);
  out.recompute_modules = each_of(transformer + "recompute_modules", kRecomputed);
  out.first_stage_layers = v_.integer(transformer + "num_layers_in_first_pipeline_stage", 1, kMost, 0);
  out.last_stage_layers = v_.integer(transformer + "num_layers_in_last_pipeline_stage", 1, kMost, 0);
  out.account_for_embedding = v_.flag(transformer + "account_for_embedding_in_pipeline_split", false);
  out.account_for_loss = v_.flag(transformer + "account_for_loss_in_pipeline_split", false);
  out.switches.gradient_accumulation_fusion = v_.flag(transformer + "gradient_accumulation_fusion", false);
  out.switches.fused_activation = v_.flag(transformer + "bias_activation_fusion", false);
  out.switches.fused_rotary = v_.flag(transformer + "apply_rope_fusion", false);
  out.switches.deallocates_outputs = v_.flag(transformer + "deallocate_pipeline_outputs", false);
  out.switches.context_all_to_all = covered(transformer + "cp_comm_type", kContextExchanges) == "a2a";
  covered(transformer + "attention_backend", kMegatronAttentions);
  read_switches(at, transformer, out.switches);
  out.gradients_fp32 = v_.flag(at + "override_ddp_config.grad_reduce_in_fp32", true);
  out.pad_to_length = v_.flag(at + "pad_to_length");
  out.pad_to_length_bucket = v_.integer(at + "pad_to_length_bucket", 1, kMost, 512);
  return out;
}

OptimizerSettings SettingsReader::optimizer(const std::string& at, Strategy strategy) {
  OptimizerSettings out;
  out.optimizer = covered(
      at + "optimizer", strategy == Strategy::megatron ? Words(kMegatronOptimizers) : Words(kFsdpOptimizers));
  out.implementation = covered(at + "optimizer_impl", kOptimizerLibraries, "torch.optim");
  out.fused = v_.flag(at + "override_optimizer_config.fused");
  if (v_.flag(at + "override_optimizer_config.optimizer_cpu_offload"))
    out.cpu_fraction = v_.number(at + "override_optimizer_config.optimizer_offload_fraction", 0, 1, 1);
  if (v_.flag(at + "use_precision_aware_optimizer") ||
      v_.flag(at + "override_optimizer_config.use_precision_aware_optimizer")) {
    out.states = v_.dtype(at + "exp_avg_dtype", DType::fp32);
    out.main_grads = v_.dtype(at + "main_grads_dtype", DType::fp32);
  }
  return out;
}

ModelSettings SettingsReader::model(const std::string& at) {
  ModelSettings out;
  out.path = v_.text(at + "path");
  out.hf_config_path = v_.text(at + "hf_config_path");
  out.override_config = v_.tree(at + "override_config");
  out.attention = covered(at + "override_config.attn_implementation", kAttentions, "flash_attention_2");
  out.gradient_checkpointing = v_.flag(at + "enable_gradient_checkpointing", true);
  out.activation_offload = v_.flag(at + "enable_activation_offload");
  out.remove_padding = v_.flag(at + "use_remove_padding", true);
  out.use_shm = v_.flag(at + "use_shm");
  out.liger = v_.flag(at + "use_liger");
  out.mtp = v_.flag(at + "mtp.enable");
  out.mtp_trained = out.mtp && v_.flag(at + "mtp.enable_train");
  return out;
}

/// The adapter's own adapter_config.json says its rank and targets; where it lies elsewhere, a rank is assumed.
void SettingsReader::read_adapter(const std::string& adapter, const std::string& at, Lora& out) {
  const std::filesystem::path folder =
      std::filesystem::path(adapter).is_absolute() ? std::filesystem::path(adapter) : std::filesystem::path(base_) / adapter;
  const std::filesystem::path file = folder / "adapter_config.json";
  std::error_code code;
  if (std::filesystem::is_regular_file(file, code)) {
    Result<Document> config = read_document(file.string());
    if (!config) return v_.fail_with(std::move(config.error()), at + "lora_adapter_path");
    if (const Document* rank = config->find("r")) out.rank = rank->as_int().value_or(0);
    const Document* targets = config->find("target_modules");
    if (targets != nullptr && targets->is_list()) {
      out.targets.clear();
      out.lists_targets = true;
      for (const Document& target : targets->items()) out.targets.push_back(target.text());
    }
    if (out.rank > 0) return;
  }
  out.rank = kAssumedRank;
  v_.warn_at(at + "lora_adapter_path", fmt::format("the rank of {} is not known here: {} is assumed ({}lora_rank says another)",
                                                   adapter, kAssumedRank, at));
}

Lora SettingsReader::lora(const std::string& at) {
  Lora out;
  out.rank = v_.integer(at + "lora_rank", 0, 65536, 0);
  out.targets = v_.texts(at + "target_modules");
  out.lists_targets = is_list(at + "target_modules");
  out.excluded = v_.texts(at + "exclude_modules");
  out.lists_excluded = is_list(at + "exclude_modules");
  out.merge = v_.flag(at + "lora.merge");
  if (out.rank == 0) {
    out.rank = v_.integer(at + "lora.rank", 0, 65536, 0);
    std::vector<std::string> named = v_.texts(at + "lora.target_modules");
    if (out.rank > 0 && !named.empty()) {
      out.targets = std::move(named);
      out.lists_targets = is_list(at + "lora.target_modules");
    }
  }
  std::string adapter = v_.text(at + "lora_adapter_path");
  if (adapter.empty()) adapter = v_.text(at + "lora.adapter_path");
  if (!adapter.empty() && out.rank == 0) read_adapter(adapter, at, out);
  return out;
}

bool SettingsReader::is_list(const std::string& key) {
  const auto found = v_.layers().get(key);
  return found && *found && (*found)->value.is_list();
}

void SettingsReader::choose_modules(Worker& worker, const std::string& at) {
  Lora& lora = worker.lora;
  const Architecture* model = worker.model.architecture.get();
  if (lora.rank == 0 || model == nullptr) return;
  const bool all = lora.targets.empty() || (lora.targets.size() == 1 && lora.targets.front() == "all-linear");
  if (lora.excluded.empty() && (lora.lists_targets || all)) return;
  Result<cases::LoraTargets> targets = cases::LoraTargets{.names = {"all-linear"}, .unmatched = {}};
  if (!all) targets = cases::lora_targets(*model, lora.targets, lora.lists_targets, false);
  if (!targets) return v_.fail_with(std::move(targets.error()), at + "target_modules");
  if (lora.excluded.empty()) {
    lora.targets = std::move(targets->names);
    return;
  }
  auto left = cases::without_modules(*model, *targets, lora.excluded, lora.lists_excluded);
  if (!left) return v_.fail_with(std::move(left.error()), at + "exclude_modules");
  lora.targets = std::move(*left);
}

Packing SettingsReader::packing(bool dynamic, const std::string& micro, const std::string& deprecated,
                                const std::string& tokens, std::int64_t ranks) {
  Packing out;
  out.dynamic = dynamic;
  out.micro = v_.optional_integer(micro, 1, kMost);
  const auto global = v_.optional_integer(deprecated, 1, kMost);
  out.tokens = v_.integer(tokens, 1, kMost, 16384);
  if (!global) return out;
  const bool given = v_.given(deprecated);
  if (s_.after(0, 8, 0)) {
    if (given && !out.micro && !dynamic)
      v_.fail_at(deprecated, fmt::format("is a global size that verl {} no longer divides; give {} instead",
                                         to_string(s_.version), micro));
    return out;
  }
  if (!dynamic && *global % ranks != 0 && *global > ranks)
    v_.fail_at(deprecated,
               fmt::format("expected a multiple of the {} data-parallel ranks, found {}", ranks, *global));
  out.micro = std::max<std::int64_t>(1, *global / ranks);
  if (given) s_.deprecated_micro.push_back(deprecated);
  return out;
}

std::int64_t SettingsReader::ulysses(const std::string& at, const std::string& fsdp_at) {
  const std::int64_t old = v_.integer(at + "ulysses_sequence_parallel_size", 1, kMost, 1);
  const std::int64_t now = v_.integer(fsdp_at + "ulysses_sequence_parallel_size", 1, kMost, 1);
  return old > 1 ? old : now;
}

std::int64_t SettingsReader::data_ranks(const Worker& worker) const {
  const Megatron& m = worker.megatron;
  const std::int64_t model =
      worker.strategy == Strategy::megatron ? m.tensor * m.pipeline * m.context : worker.ulysses;
  return std::max<std::int64_t>(1, s_.gpus() / std::max<std::int64_t>(1, model));
}

/// Before the contents had their present name, weights and optimizer states were saved whatever they said.
void SettingsReader::checkpoint(const std::string& at, Worker& worker) {
  const bool chosen = s_.after(0, 4, 0) || v_.given(at + "save_contents");
  if (!chosen) worker.saved_parts = kWeights | kOptimizer;
  for (const std::string& part : each_of(at + (chosen ? "save_contents" : "contents"), kSaved)) {
    if (part == "model") worker.saved_parts |= kWeights;
    if (part == "optimizer") worker.saved_parts |= kOptimizer;
    if (part == "hf_model") worker.saves_whole_model = true;
  }
}

void SettingsReader::actor() {
  Worker& a = s_.actor;
  a.exists = true;
  const bool engine_key = covered("model_engine", kModelEngines, "dp") == "megatron";
  a.strategy = strategy(kActor + "strategy", Strategy::fsdp);
  if (engine_key && !v_.given(kActor + "strategy")) a.strategy = Strategy::megatron;
  backend(a, kActor + "fsdp_config.", kActor + "megatron.");
  a.model = model(kModel);
  a.model.remove_padding = v_.flag(kActor + "use_remove_padding", a.model.remove_padding);
  a.lora = lora(kModel);
  a.optimizer = optimizer(kActor + "optim.", a.strategy);
  a.ulysses = a.strategy == Strategy::megatron ? 1 : ulysses(kActor, kActor + "fsdp_config.");
  a.mini_batch = v_.integer(kActor + "ppo_mini_batch_size", 1, kMost, 256);
  a.epochs = v_.integer(kActor + "ppo_epochs", 1, 10000, 1);
  a.train = packing(v_.flag(kActor + "use_dynamic_bsz"), kActor + "ppo_micro_batch_size_per_gpu",
                    kActor + "ppo_micro_batch_size", kActor + "ppo_max_token_len_per_gpu", data_ranks(a));
  a.forward = packing(v_.flag(kRollout + "log_prob_use_dynamic_bsz"),
                      kRollout + "log_prob_micro_batch_size_per_gpu", kRollout + "log_prob_micro_batch_size",
                      kRollout + "log_prob_max_token_len_per_gpu", data_ranks(a));
  checkpoint(kActor + "checkpoint.", a);
  loss();
}

void SettingsReader::loss() {
  s_.use_kl_loss = v_.flag(kActor + "use_kl_loss");
  s_.entropy_coeff = v_.number(kActor + "entropy_coeff", -1e9, 1e9, 0);
  s_.calculate_entropy = v_.flag(kActor + "calculate_entropy");
  s_.calculate_sum_pi_squared = v_.flag(kActor + "calculate_sum_pi_squared");
  s_.entropy_chunking = v_.flag(kActor + "entropy_from_logits_with_chunking");
  s_.entropy_chunk = v_.integer(kActor + "entropy_from_logits_chunk_size", 1, kMost, 2048);
  s_.entropy_checkpointing = v_.flag(kActor + "entropy_checkpointing");
  s_.torch_compile = v_.flag(kActor + "use_torch_compile", true) &&
                     (!s_.after(0, 7, 1) || v_.flag(kActor + "fsdp_config.use_torch_compile", true));
  s_.fused_kernels = v_.flag(kActor + "use_fused_kernels", v_.flag(kModel + "use_fused_kernels"));
  s_.fused_triton =
      v_.word(kModel + "fused_kernel_options.impl_backend", {"torch", "triton"}, "torch") == "triton";
  const std::string disabled = variable("VERL_DISABLE_FLASH_ATTN_CE");
  s_.flash_cross_entropy = disabled != "1";
  // A launch that goes round flash-attn's attention and its packing has no flash-attn.
  const ModelSettings& m = s_.actor.model;
  if (disabled.empty() && s_.actor.strategy != Strategy::megatron && !m.remove_padding &&
      (m.attention == "sdpa" || m.attention == "eager")) {
    s_.flash_cross_entropy = false;
    assumptions_.push_back(
        "flash-attn is not installed, its cross entropy neither (attention and padding go round it; "
        "VERL_DISABLE_FLASH_ATTN_CE=0 says that it is there)");
  }
}

/// Up to 0.7 the roles of one process share the parallel groups of the first worker, the actor: sizes of their
/// own do not count.
void SettingsReader::share_groups(Worker& w, const std::string& at) {
  if (w.strategy != Strategy::megatron || s_.actor.strategy != Strategy::megatron || s_.after(0, 8, 0)) return;
  const Megatron& groups = s_.actor.megatron;
  Megatron& own = w.megatron;
  const struct {
    const char* key;
    std::int64_t Megatron::* size;
  } sizes[] = {{"tensor_model_parallel_size", &Megatron::tensor},
               {"pipeline_model_parallel_size", &Megatron::pipeline},
               {"virtual_pipeline_model_parallel_size", &Megatron::virtual_pipeline},
               {"context_parallel_size", &Megatron::context},
               {"expert_model_parallel_size", &Megatron::expert},
               {"expert_tensor_parallel_size", &Megatron::expert_tensor}};
  for (const auto& [key, size] : sizes) {
    if (v_.given(at + key) && own.*size != groups.*size)
      v_.warn_at(at + key, fmt::format("does not count in this release: roles of one process share the actor's "
                                       "groups ({})",
                                       groups.*size));
    own.*size = groups.*size;
  }
}

void SettingsReader::ref() {
  Worker& r = s_.ref;
  const Worker& a = s_.actor;
  // With LoRA the reference is the actor with its adapters off.
  r.exists = s_.use_kl_loss || s_.use_kl_in_reward;
  if (!r.exists) return;
  r.strategy = strategy(kRef + "strategy", a.strategy);
  if (a.strategy == Strategy::megatron) r.strategy = Strategy::megatron;
  backend(r, kRef + "fsdp_config.", kRef + "megatron.");
  share_groups(r, kRef + "megatron.");
  r.model = a.model;
  const std::string other = v_.text(kRef + "model.path");
  if (!other.empty()) r.model.path = other;
  r.ulysses = r.strategy == Strategy::megatron ? 1 : ulysses(kRef, kRef + "fsdp_config.");
  r.forward =
      packing(v_.flag(kRef + "log_prob_use_dynamic_bsz"), kRef + "log_prob_micro_batch_size_per_gpu",
              kRef + "log_prob_micro_batch_size", kRef + "log_prob_max_token_len_per_gpu", data_ranks(r));
  r.train = r.forward;
  r.mini_batch = a.mini_batch;
}

void SettingsReader::critic() {
  Worker& c = s_.critic;
  const auto enable = v_.optional_text("critic.enable");
  c.exists = enable ? v_.flag("critic.enable") : s_.critic_estimator;
  if (!c.exists) return;
  c.strategy = strategy("critic.strategy", Strategy::fsdp);
  if (v_.text("model_engine") == "megatron" && !v_.given("critic.strategy")) c.strategy = Strategy::megatron;
  const std::string at = s_.after(0, 8, 0) ? "critic.fsdp." : "critic.model.fsdp_config.";
  backend(c, at, "critic.megatron.");
  share_groups(c, "critic.megatron.");
  c.model = model("critic.model.");
  c.lora = lora("critic.model.");
  c.optimizer = optimizer("critic.optim.", c.strategy);
  c.ulysses = c.strategy == Strategy::megatron ? 1 : ulysses("critic.", at);
  c.mini_batch = v_.integer("critic.ppo_mini_batch_size", 1, kMost, 256);
  c.epochs = v_.integer("critic.ppo_epochs", 1, 10000, 1);
  const bool dynamic = v_.flag("critic.use_dynamic_bsz");
  c.train = packing(dynamic, "critic.ppo_micro_batch_size_per_gpu", "critic.ppo_micro_batch_size",
                    "critic.ppo_max_token_len_per_gpu", data_ranks(c));
  c.forward = packing(dynamic, "critic.forward_micro_batch_size_per_gpu", "critic.forward_micro_batch_size",
                      "critic.forward_max_token_len_per_gpu", data_ranks(c));
  checkpoint("critic.checkpoint.", c);
}

void SettingsReader::fsdp_reward() {
  Worker& r = s_.reward;
  const std::string at = "reward_model.";
  r.exists = v_.flag(at + "enable");
  if (!r.exists) return;
  r.strategy = strategy(at + "strategy", Strategy::fsdp);
  r.fsdp = fsdp(at + "model.fsdp_config.");
  r.model.path = v_.text(at + "model.path");
  r.model.remove_padding = v_.flag(at + "model.use_remove_padding");
  r.model.use_shm = v_.flag(at + "model.use_shm");
  r.ulysses = v_.integer(at + "ulysses_sequence_parallel_size", 1, kMost, 1);
  r.forward = packing(v_.flag(at + "use_dynamic_bsz"), at + "micro_batch_size_per_gpu",
                      at + "micro_batch_size", at + "forward_max_token_len_per_gpu", data_ranks(r));
  r.train = r.forward;
  r.mini_batch = s_.actor.mini_batch;
}

}  // namespace headroom::verl

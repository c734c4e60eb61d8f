#include <fmt/format.h>

#include <cstdlib>

#include "planner/configuration/model_lookup.h"
#include "planner/frameworks/verl/settings.h"
#include "planner/frameworks/verl/words.h"

namespace headroom::verl {
namespace {

/// Largest count that is taken for meant; products of two still fit 63 bits.
constexpr std::int64_t kMost = std::int64_t{1} << 30;

const std::string kActor = "actor_rollout_ref.actor.";
const std::string kRef = "actor_rollout_ref.ref.";
const std::string kRollout = "actor_rollout_ref.rollout.";
const std::string kModel = "actor_rollout_ref.model.";

class Reader {
 public:
  Reader(Values& values, const Version& version, const JobOptions& options, const std::string& base)
      : v_(values), options_(options), base_(base) {
    s_.version = version;
  }

  Settings read() {
    hardware();
    batch();
    algorithm();
    actor();
    rollout();
    ref();
    critic();
    reward();
    trainer();
    models();
    s_.assumptions = std::move(assumptions_);
    return std::move(s_);
  }

 private:
  std::string variable(const std::string& name) {
    const auto given = options_.environment.find(name);
    if (given != options_.environment.end()) return given->second;
    return v_.text("ray_kwargs.ray_init.runtime_env.env_vars." + name);
  }

  void not_modelled(const std::string& key, const std::string& what) {
    v_.warn_at(key, what + " is not modelled yet: the verdict is undetermined");
    s_.not_modelled.push_back(key + ": " + what);
  }

  /// The word at `key`; one that no program covers leaves the verdict undetermined.
  std::string covered(const std::string& key, Words words, std::string_view fallback = "") {
    const std::string word = v_.text(key, std::string(fallback));
    if (!is_one_of(word, words))
      not_modelled(key, fmt::format("{} (known: {})", word.substr(0, 80), listed(words)));
    return word;
  }

  /// The words of a list, each one of `words`.
  std::vector<std::string> each_of(const std::string& key, Words words) {
    std::vector<std::string> found = v_.texts(key);
    for (const std::string& word : found)
      if (!is_one_of(word, words))
        v_.fail_at(key, fmt::format("expected some of {}, found {}", listed(words), word.substr(0, 80)));
    return found;
  }

  void hardware() {
    s_.gpu = options_.gpu.empty() ? v_.text("headroom.gpu") : options_.gpu;
    s_.nodes = v_.integer("trainer.nnodes", 1, 1'000'000, 1);
    s_.gpus_per_node = v_.integer("trainer.n_gpus_per_node", 1, 1024, 8);
    if (options_.nodes) s_.nodes = *options_.nodes;
    if (options_.gpus_per_node) s_.gpus_per_node = *options_.gpus_per_node;
    const std::string device = v_.text("trainer.device", "cuda");
    if (device != "cuda") v_.fail_at("trainer.device", fmt::format("expected cuda, found {}", device));
    if (!v_.flag("actor_rollout_ref.hybrid_engine", true))
      v_.fail_at("actor_rollout_ref.hybrid_engine",
                 "expected true (the only layout that verl supports), found false");
  }

  void batch() {
    s_.train_batch_size = v_.integer("data.train_batch_size", 1, kMost, 1024);
    s_.gen_batch_size = v_.integer("data.gen_batch_size", 1, kMost, 0);
    s_.prompt_length = v_.integer("data.max_prompt_length", 1, kMost, 512);
    s_.response_length = v_.integer("data.max_response_length", 1, kMost, 512);
    s_.n = v_.integer(kRollout + "n", 1, 1'000'000, 1);
  }

  void algorithm() {
    const std::string key = "algorithm.adv_estimator";
    const std::string estimator = v_.text(key, "gae");
    s_.critic_estimator = estimator == "gae";
    // verl makes a critic for GAE alone, and otherwise where critic.enable says so.
    if (!is_one_of(estimator, kEstimators) && !v_.optional_text("critic.enable"))
      not_modelled(key,
                   fmt::format("the estimator {} (known: {}; critic.enable says whether it has a critic)",
                               estimator.substr(0, 80), listed(kEstimators)));
    s_.use_kl_in_reward = v_.flag("algorithm.use_kl_in_reward");
    s_.bypass_mode = v_.flag("algorithm.rollout_correction.bypass_mode");
  }

  Strategy strategy(const std::string& key, Strategy fallback) {
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

  /// Only the keys of the backend that runs.
  void backend(Worker& worker, const std::string& fsdp_at, const std::string& megatron_at) {
    if (worker.strategy == Strategy::megatron) {
      worker.megatron = megatron(megatron_at);
    } else {
      worker.fsdp = fsdp(fsdp_at);
    }
  }

  Fsdp fsdp(const std::string& at) {
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

  Megatron megatron(const std::string& at) {
    Megatron out;
    out.param_offload = v_.flag(at + "param_offload");
    out.optimizer_offload = v_.flag(at + "optimizer_offload");
    out.tensor = v_.integer(at + "tensor_model_parallel_size", 1, kMost, 1);
    out.pipeline = v_.integer(at + "pipeline_model_parallel_size", 1, kMost, 1);
    out.virtual_pipeline = v_.integer(at + "virtual_pipeline_model_parallel_size", 1, kMost, 1);
    out.context = v_.integer(at + "context_parallel_size", 1, kMost, 1);
    out.expert = v_.integer(at + "expert_model_parallel_size", 1, kMost, 1);
    out.expert_tensor = v_.integer(at + "expert_tensor_parallel_size", 1, kMost, 0);
    out.sequence_parallel = v_.flag(at + "sequence_parallel", true) && out.tensor > 1;
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
    out.gradients_fp32 = v_.flag(at + "override_ddp_config.grad_reduce_in_fp32", true);
    out.pad_to_length = v_.flag(at + "pad_to_length");
    out.pad_to_length_bucket = v_.integer(at + "pad_to_length_bucket", 1, kMost, 512);
    return out;
  }

  OptimizerSettings optimizer(const std::string& at, Strategy strategy) {
    OptimizerSettings out;
    out.optimizer = covered(at + "optimizer", strategy == Strategy::megatron ? Words(kMegatronOptimizers)
                                                                             : Words(kFsdpOptimizers));
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

  ModelSettings model(const std::string& at) {
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
    return out;
  }

  Lora lora(const std::string& at) {
    Lora out;
    out.rank = v_.integer(at + "lora_rank", 0, 65536, 0);
    out.alpha = v_.number(at + "lora_alpha", 0, 1e9, 16);
    out.targets = v_.texts(at + "target_modules");
    out.merge = v_.flag(at + "lora.merge");
    if (out.rank == 0) {
      out.rank = v_.integer(at + "lora.rank", 0, 65536, 0);
      if (out.rank > 0 && v_.given(at + "lora.alpha")) out.alpha = v_.number(at + "lora.alpha", 0, 1e9, 32);
    }
    std::string adapter = v_.text(at + "lora_adapter_path");
    if (adapter.empty()) adapter = v_.text(at + "lora.adapter_path");
    if (!adapter.empty() && out.rank == 0)
      v_.fail_at(at + "lora_rank", "expected the adapter's rank (a lora_adapter_path is given), found 0");
    return out;
  }

  /// Sizes of a pass: `micro` and the deprecated global key, whose value old releases divide over the ranks.
  Packing packing(bool dynamic, const std::string& micro, const std::string& deprecated,
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

  std::int64_t ulysses(const std::string& at, const std::string& fsdp_at) {
    const std::int64_t old = v_.integer(at + "ulysses_sequence_parallel_size", 1, kMost, 1);
    const std::int64_t now = v_.integer(fsdp_at + "ulysses_sequence_parallel_size", 1, kMost, 1);
    return old > 1 ? old : now;
  }

  std::int64_t data_ranks(const Worker& worker) const {
    const Megatron& m = worker.megatron;
    const std::int64_t model =
        worker.strategy == Strategy::megatron ? m.tensor * m.pipeline * m.context : worker.ulysses;
    return std::max<std::int64_t>(1, s_.gpus() / std::max<std::int64_t>(1, model));
  }

  bool saves_whole_model(const std::string& at) {
    const char* key = s_.after(0, 4, 0) || v_.given(at + "save_contents") ? "save_contents" : "contents";
    for (const std::string& part : each_of(at + key, kSaved))
      if (part == "hf_model") return true;
    return false;
  }

  void actor() {
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
    a.forward = packing(
        v_.flag(kRollout + "log_prob_use_dynamic_bsz"), kRollout + "log_prob_micro_batch_size_per_gpu",
        kRollout + "log_prob_micro_batch_size", kRollout + "log_prob_max_token_len_per_gpu", data_ranks(a));
    a.saves_whole_model = saves_whole_model(kActor + "checkpoint.");
    loss();
  }

  void loss() {
    s_.use_kl_loss = v_.flag(kActor + "use_kl_loss");
    s_.entropy_coeff = v_.number(kActor + "entropy_coeff", -1e9, 1e9, 0);
    s_.calculate_entropy = v_.flag(kActor + "calculate_entropy");
    s_.calculate_sum_pi_squared = v_.flag(kActor + "calculate_sum_pi_squared");
    s_.entropy_chunking = v_.flag(kActor + "entropy_from_logits_with_chunking");
    s_.entropy_chunk = v_.integer(kActor + "entropy_from_logits_chunk_size", 1, kMost, 2048);
    s_.entropy_checkpointing = v_.flag(kActor + "entropy_checkpointing");
    s_.torch_compile = v_.flag(kActor + "use_torch_compile", true);
    s_.fused_kernels = v_.flag(kActor + "use_fused_kernels", v_.flag(kModel + "use_fused_kernels"));
    s_.fused_triton =
        v_.word(kModel + "fused_kernel_options.impl_backend", {"torch", "triton"}, "torch") == "triton";
    s_.flash_cross_entropy = variable("VERL_DISABLE_FLASH_ATTN_CE") != "1";
  }

  void rollout() {
    EngineSettings& e = s_.rollout;
    e.exists = true;
    const bool mandatory = s_.after(0, 6, 0);  // an override can delete the key
    e.name = v_.word(kRollout + "name", {"vllm", "sglang", "trtllm", "hf"}, mandatory ? "" : "vllm");
    if (e.name.empty()) v_.fail_at(kRollout + "name", "is mandatory and not set; give a value");
    if (e.name == "hf") not_modelled(kRollout + "name", "generation inside FSDP (rollout.name=hf)");
    if (e.name == "trtllm") not_modelled(kRollout + "name", "TensorRT-LLM");
    const std::string mode = v_.word(kRollout + "mode", {"sync", "async"}, "async");
    e.sync_mode = mode == "sync" && !s_.after(0, 7, 0) && e.name == "vllm";
    e.dtype = v_.dtype(kRollout + "dtype", DType::bf16);
    e.gpu_memory_utilization = fraction(kRollout + "gpu_memory_utilization", 0.5);
    e.tensor = v_.integer(kRollout + "tensor_model_parallel_size", 1, kMost, 2);
    e.data = v_.integer(kRollout + "data_parallel_size", 1, kMost, 1);
    e.expert = v_.integer(kRollout + "expert_parallel_size", 1, kMost, 1);
    e.pipeline = v_.integer(kRollout + "pipeline_model_parallel_size", 1, kMost, 1);
    e.enforce_eager = v_.flag(kRollout + "enforce_eager");
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
  }

  double fraction(const std::string& key, double fallback) {
    const double value = v_.number(key, 0, 1, fallback);
    if (value <= 0)
      v_.fail_at(key, fmt::format("expected a fraction above 0 and at most 1, found {}", value));
    return value;
  }

  /// engine_kwargs are passed through by verl and may override anything.
  void vllm_arguments(EngineSettings& e) {
    const std::string at = kRollout + "engine_kwargs.vllm.";
    for (const char* argument : {"gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens",
                                 "max_model_len", "enforce_eager"})
      if (v_.given(at + argument)) e.passed_through.insert(argument);
    if (v_.given(at + "gpu_memory_utilization"))
      e.gpu_memory_utilization = fraction(at + "gpu_memory_utilization", 0.5);
    e.kv_cache_dtype = covered(at + "kv_cache_dtype", kCacheTypes);
    e.kv_cache_memory_bytes = v_.optional_integer(at + "kv_cache_memory_bytes", 1, std::int64_t{1} << 50);
    e.num_gpu_blocks_override = v_.optional_integer(at + "num_gpu_blocks_override", 1, kMost);
    e.block_size = v_.optional_integer(at + "block_size", 1, 4096);
    e.swap_space_gib = v_.number(at + "swap_space", 0, 1e6, 0);
    e.max_num_seqs = v_.integer(at + "max_num_seqs", 1, kMost, e.max_num_seqs);
    e.max_num_batched_tokens = v_.integer(at + "max_num_batched_tokens", 1, kMost, e.max_num_batched_tokens);
    if (const auto length = v_.optional_integer(at + "max_model_len", 1, kMost)) e.max_model_len = length;
    e.enforce_eager = v_.flag(at + "enforce_eager", e.enforce_eager);
  }

  void sglang_arguments(EngineSettings& e) {
    const std::string at = kRollout + "engine_kwargs.sglang.";
    for (const char* argument : {"mem_fraction_static", "chunked_prefill_size"})
      if (v_.given(at + argument)) e.passed_through.insert(argument);
    if (v_.given(at + "mem_fraction_static"))
      e.gpu_memory_utilization = fraction(at + "mem_fraction_static", 0.5);
    e.max_num_batched_tokens = v_.integer(at + "chunked_prefill_size", 1, kMost, e.max_num_batched_tokens);
    if (const auto most = v_.optional_integer(at + "cuda_graph_max_bs", 1, kMost)) e.capture_sizes = {*most};
  }

  void ref() {
    Worker& r = s_.ref;
    const Worker& a = s_.actor;
    // With LoRA the reference is the actor with its adapters off.
    r.exists = s_.use_kl_loss || s_.use_kl_in_reward;
    if (!r.exists) return;
    r.strategy = strategy(kRef + "strategy", a.strategy);
    if (a.strategy == Strategy::megatron) r.strategy = Strategy::megatron;
    backend(r, kRef + "fsdp_config.", kRef + "megatron.");
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

  void critic() {
    Worker& c = s_.critic;
    const auto enable = v_.optional_text("critic.enable");
    c.exists = enable ? v_.flag("critic.enable") : s_.critic_estimator;
    if (!c.exists) return;
    c.strategy = strategy("critic.strategy", Strategy::fsdp);
    if (v_.text("model_engine") == "megatron" && !v_.given("critic.strategy"))
      c.strategy = Strategy::megatron;
    const std::string at = s_.after(0, 8, 0) ? "critic.fsdp." : "critic.model.fsdp_config.";
    backend(c, at, "critic.megatron.");
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
    c.saves_whole_model = saves_whole_model("critic.checkpoint.");
  }

  void reward() {
    if (!s_.after(0, 7, 0)) return fsdp_reward();
    const std::string at = s_.after(0, 7, 1) ? "reward.reward_model." : "reward_model.";
    EngineSettings& e = s_.reward_engine;
    e.exists = v_.flag(at + "enable");
    s_.reward_workers = v_.integer("reward.num_workers", 0, 100000, 8);
    if (!e.exists) return;
    s_.reward_model_path = v_.text(at + "model_path", v_.text(at + "model.path"));
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

  /// The reward model of old releases: a classifier under FSDP, on the trainer's GPUs.
  void fsdp_reward() {
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

  void trainer() {
    s_.save_freq = v_.integer("trainer.save_freq", -1, kMost, -1);
    s_.test_freq = v_.integer("trainer.test_freq", -1, kMost, -1);
    s_.critic_warmup = v_.integer("trainer.critic_warmup", 0, kMost, 0);
    s_.val_before_train = v_.flag("trainer.val_before_train", true);
    s_.v1 = s_.after(0, 9, 0) && v_.flag("trainer.use_v1", true);
    s_.trainer_mode =
        v_.word("trainer.v1.trainer_mode", {"sync", "colocate_async", "separate_async"}, "sync");
    const std::string mode = v_.word("trainer.resume_mode", {"auto", "disable", "resume_path"}, "auto");
    s_.resumed = options_.resumed || v_.flag("headroom.resumed", mode == "resume_path");
    if (s_.after(0, 7, 0) && !s_.after(0, 8, 0) &&
        v_.word("trainer.use_legacy_worker_impl", {"auto", "enable", "disable"}, "auto") == "disable")
      v_.warn_at("trainer.use_legacy_worker_impl",
                 "the new workers of this release are read as the legacy ones");
    if (s_.critic.exists && s_.v1) {
      const std::int64_t fixed = v_.integer("critic.ppo_infer_max_token_len_per_gpu", 1, kMost, 32768);
      if (v_.given("critic.ppo_max_token_len_per_gpu") && s_.critic.train.tokens != fixed)
        v_.warn_at(
            "critic.ppo_max_token_len_per_gpu",
            fmt::format(
                "is not read by the V1 trainer, which always packs the critic's sequences to {} tokens "
                "(+critic.ppo_infer_max_token_len_per_gpu changes it)",
                fixed));
      s_.critic.train = s_.critic.forward = {.dynamic = true, .micro = {}, .tokens = fixed};
    }
    for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
      if (const std::string value = variable(name); !value.empty()) s_.allocator_settings = value;
      s_.allocator_from_environment = s_.allocator_from_environment || options_.environment.count(name) > 0;
    }
    s_.agent_workers = v_.integer(kRollout + "agent.num_workers", 0, 100000, 8);
    if (options_.steps) s_.steps = *options_.steps;
  }

  std::shared_ptr<const Architecture> find(const ModelSettings& model, const std::string& key,
                                           HeadKind head) {
    ModelRequest request{.name = model.path,
                         .config = model.hf_config_path,
                         .base = base_,
                         .head = head,
                         .overrides = model.override_config};
    Result<std::shared_ptr<const Architecture>> found = find_model(request);
    if (found) return *found;
    v_.fail_with(std::move(found.error()), key);
    return nullptr;
  }

  void models() {
    if (v_.failed()) return;
    if (!options_.model.empty()) {
      s_.actor.model.path = options_.model;
      s_.actor.model.hf_config_path.clear();
      if (!v_.given(kRef + "model.path")) s_.ref.model = s_.actor.model;
    } else if (!v_.given(kModel + "path")) {
      return v_.fail_at(kModel + "path", "no model is given; name it here or with --model");
    }
    s_.actor.model.architecture = find(s_.actor.model, kModel + "path", HeadKind::language_model);
    if (s_.ref.exists)
      s_.ref.model.architecture = s_.ref.model.path == s_.actor.model.path
                                      ? s_.actor.model.architecture
                                      : find(s_.ref.model, kRef + "model.path", HeadKind::language_model);
    if (s_.critic.exists) {
      if (!v_.given("critic.model.path")) {
        s_.critic.model.path = s_.actor.model.path;
        s_.critic.model.hf_config_path = s_.actor.model.hf_config_path;
        assumptions_.push_back(
            "critic.model.path is not given: the critic is taken to be as large as the actor");
      }
      s_.critic.model.architecture = find(s_.critic.model, "critic.model.path", HeadKind::scalar);
    }
    if (s_.reward.exists)
      s_.reward.model.architecture = find(s_.reward.model, "reward_model.model.path", HeadKind::scalar);
    if (s_.reward_engine.exists) {
      const std::string key =
          s_.after(0, 7, 1) ? "reward.reward_model.model_path" : "reward_model.model.path";
      s_.reward_model =
          find({.path = s_.reward_model_path, .hf_config_path = {}, .attention = {}, .architecture = {}}, key,
               HeadKind::scalar);
    }
  }

  Values& v_;
  const JobOptions& options_;
  std::string base_;
  Settings s_;
  std::vector<std::string> assumptions_;
};

}  // namespace

Settings read_settings(Values& values, const Version& version, const JobOptions& options,
                       const std::string& base) {
  return Reader(values, version, options, base).read();
}

}  // namespace headroom::verl

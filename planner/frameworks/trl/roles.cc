#include <algorithm>

#include "models/architecture/family.h"
#include "planner/frameworks/settings/deepspeed.h"
#include "planner/frameworks/trl/job.h"
#include "planner/frameworks/trl/loops.h"

namespace headroom::trl {
namespace {

constexpr ShardingKind kStages[] = {ShardingKind::zero0, ShardingKind::zero1, ShardingKind::zero2,
                                    ShardingKind::zero3};

bool is_true(const std::string& text) {
  return Document::scalar(text).as_bool().value_or(false);
}

/// A size of a DeepSpeed file; "auto" is what Transformers' integration puts there.
std::int64_t size_of(const std::string& text, std::int64_t automatic) {
  return text == "auto" ? automatic
                        : static_cast<std::int64_t>(Document::scalar(text).as_double().value_or(0));
}

/// Of Accelerate's own keys nothing but stage and offloading reaches DeepSpeed: the rest is its defaults.
void set_zero(const Settings& s, Role& role) {
  Sharding& z = role.sharding;
  const std::int64_t stage = s.launcher.stage;
  z.kind = role.trained ? kStages[stage] : stage == 3 ? ShardingKind::zero3 : ShardingKind::zero0;
  z.overlap_communication = stage == 3;
  z.sharded_as_built = stage == 3 && s.launcher.zero3_init;
  z.gathers_to_generate = s.gathers_to_generate;
  // Accelerate divides the loss itself and tells the engine so.
  settings::set_deepspeed_release(s.versions.deepspeed, false, z);
  const DeepspeedFile& file = s.deepspeed;
  const std::int64_t width = role.model->decoder.hidden;
  std::string optimizer = s.launcher.offload_optimizer, parameters = s.launcher.offload_parameters;
  if (file.given) {
    z.reduce_bucket = std::max<std::int64_t>(1, size_of(file.reduce_bucket, width * width));
    z.allgather_bucket = std::max<std::int64_t>(1, size_of(file.allgather_bucket, 500'000'000));
    z.prefetch_bucket = size_of(file.prefetch_bucket, width * width * 9 / 10);
    z.persistence_threshold = size_of(file.persistence, 10 * width);
    z.max_live_parameters = size_of(file.live, 1'000'000'000);
    z.max_reuse_distance = size_of(file.reuse, 1'000'000'000);
    z.contiguous_gradients = is_true(file.contiguous);
    if (!file.overlap.empty()) z.overlap_communication = is_true(file.overlap);
    z.pin_memory = is_true(file.pin_optimizer) || is_true(file.pin_parameters);
    optimizer = file.offload_optimizer;
    parameters = file.offload_parameters;
  }
  if (role.trained && stage >= 1) z.offload_optimizer = optimizer == "cpu" || optimizer == "nvme";
  if (stage == 3) z.offload_parameters = parameters == "cpu" || parameters == "nvme";
  // Accelerate puts DeepSpeed's own in the place of an optimizer whose states are on the host.
  if (role.trained)
    role.optimizer.implementation =
        z.offload_optimizer ? OptimizerImplementation::cpu : OptimizerImplementation::apex;
}

void set_fsdp(const Settings& s, Role& role) {
  Sharding& f = role.sharding;
  const bool second = s.launcher.fsdp_version == 2;
  f.kind = second ? ShardingKind::fsdp2 : ShardingKind::fsdp1;
  const std::string& strategy =
      s.launcher.sharding_strategy.empty() || second ? s.launcher.reshard : s.launcher.sharding_strategy;
  f.reshard_after_forward =
      !(strategy == "false" || strategy == "False" || strategy == "SHARD_GRAD_OP" || strategy == "2");
  f.cpu_offload = s.launcher.offload_params;
  f.forward_prefetch = !second && s.launcher.forward_prefetch;
  f.defer_gradient_sync = s.accum > 1;
  const std::string& policy = s.launcher.wrap_policy;
  const bool wrapped = policy == "TRANSFORMER_BASED_WRAP" || policy == "SIZE_BASED_WRAP";
  // A reference of FSDP2 is one unit, whatever the policy's are.
  f.layers_wrapped = wrapped && (role.trained || !second);
  f.embedding_wrapped = false;  // Accelerate wraps the layers' class and the model
  f.trainable_leaves_wrapped = !second && role.lora.has_value();
  if (role.trained && s.launcher.fsdp_checkpointing) role.recompute.kind = RecomputeKind::full;
  if (f.cpu_offload) role.optimizer.implementation = OptimizerImplementation::cpu;
  role.built_on_host = true;
}

/// What Accelerate makes of the weights' types, and of the forward's.
void set_precision(const Settings& s, Role& role) {
  Precision& p = role.precision;
  const DType half = s.half();
  p.weights = s.dtype;
  p.compute = s.mixed_precision ? half : s.dtype;
  p.autocast = s.mixed_precision;
  p.gradient_scaler = s.mixed_precision && half == DType::fp16;
  switch (s.distributed()) {
    case Distributed::deepspeed:
      if (is_zero(role.sharding.kind)) {
        p.weights = p.compute = s.mixed_precision ? half : DType::fp32;
        p.autocast = false;
      }
      break;
    case Distributed::fsdp:
      if (role.sharding.kind == ShardingKind::none) break;
      // Trained flat parameters are widened; the second version's forward has no wrapper of Accelerate's.
      if (role.trained && !role.lora && s.mixed_precision) p.weights = DType::fp32;
      p.autocast = s.mixed_precision && role.sharding.kind == ShardingKind::fsdp1;
      break;
    default:
      break;
  }
  p.gradients = p.weights;
  p.reduce = p.compute;
}

/// Transformers looks for unused parameters unless the model is one of its own (adapters' is not) and recomputes;
/// PPO's trainer wraps by itself.
bool finds_unused(const Settings& s) {
  if (s.trainer == Trainer::ppo) return false;
  if (!s.find_unused.empty()) return Document::scalar(s.find_unused).as_bool().value_or(false);
  return s.lora > 0 || !s.grad_ckpt;
}

void set_sharding(const Settings& s, Role& role) {
  const bool whole_copies = s.trainer == Trainer::ppo && !role.trained;  // of PPO's models that only score
  switch (s.distributed()) {
    case Distributed::none:
      // A lone process lets the loader place the model.
      role.loaded_into_cache = s.since(0, 26) && s.trainer != Trainer::ppo;
      role.built_on_host = !role.loaded_into_cache;
      break;
    case Distributed::data_parallel:
      role.sharding.kind = role.trained ? ShardingKind::data_parallel : ShardingKind::none;
      role.sharding.finds_unused = finds_unused(s);
      role.built_on_host = true;
      role.loads_on_every_rank = true;
      break;
    case Distributed::deepspeed:
      set_zero(s, role);
      role.loads_on_every_rank = s.launcher.stage < 3 || !s.launcher.zero3_init;
      break;
    case Distributed::fsdp:
      role.built_on_host = true;
      if (!whole_copies) set_fsdp(s, role);
      role.loads_on_every_rank = whole_copies || !s.launcher.ram_efficient;
      break;
  }
}

void set_attention(const Settings& s, Role& role) {
  // Learned logits beside the scores (GPT-OSS) have a program without fused kernels alone.
  const auto& groups = role.model->decoder.groups;
  const bool sinks = std::any_of(groups.begin(), groups.end(),
                                 [](const LayerGroup& group) { return group.layer.attention.sinks; });
  const bool flash = !sinks && s.attention.find("flash") != std::string::npos;
  role.attention_mask = !s.one_row();
  role.attention = s.one_row() && flash              ? AttentionImplementation::flash_varlen
                   : flash                           ? AttentionImplementation::flash
                   : sinks || s.attention == "eager" ? AttentionImplementation::eager
                                                     : cases::default_attention(*role.model);
}

/// The loss's logits, by what the trainer forms of them.
void set_loss(const Settings& s, Role& role) {
  LossSpec& loss = role.loss;
  if (s.online()) {
    loss.kl = s.beta != 0;
    loss.scales_samples = s.temperature != 1;
    loss.temperature_copy = !s.since(1, 0);
    loss.train_entropy = s.entropy_coefficient != 0 || s.adaptive_entropy ? Entropy::backward
                         : s.since(0, 20)                                 ? Entropy::forward
                                                                          : Entropy::none;
  }
  if (s.trainer != Trainer::sft) return;
  constexpr std::int64_t kChunk = 256;
  if (s.liger) {
    loss.token_logprob = TokenLogprob::fused_linear;
  } else if (s.loss_type == "chunked_nll" || (s.loss_type.empty() && s.since(1, 6))) {
    loss.token_logprob = TokenLogprob::fused_linear;
    loss.chunk = kChunk;
  } else {
    loss.token_logprob =
        s.loss_type == "dft" ? TokenLogprob::selective_log_softmax : TokenLogprob::cross_entropy;
  }
}

const LoopKind* loop_of(Trainer trainer) {
  if (trainer == Trainer::ppo) return &kPpoLoop;
  return trainer == Trainer::grpo || trainer == Trainer::rloo ? &kGrpoLoop : &kSupervisedLoop;
}

Role make_role(const Settings& s, const char* name, HeadKind head, bool trained,
               const std::shared_ptr<const Architecture>& model, const std::string& path) {
  Role role;
  role.name = name;
  role.loop = loop_of(s.trainer);
  role.head = head;
  role.trained = trained;
  role.model = model;
  role.model_name = path.empty() ? model->family : path;
  role.optimizer.implementation = s.optimizer;
  role.optimizer.kind = s.optimizer_kind;
  role.optimizer.clip = s.max_grad_norm > 0 && s.trainer != Trainer::ppo;
  if (trained && s.lora > 0) {
    LoraSpec lora{
        .rank = s.lora, .targets = s.lora_targets, .saved_modules = {}};
    lora.dropout = s.lora_dropout > 0 && !s.disable_dropout;
    lora.dtype = s.zero3() && s.since(1, 7) ? s.half() : DType::fp32;
    role.lora = lora;
  }
  const bool checkpointed = trained && s.grad_ckpt && s.trainer != Trainer::ppo;
  if (checkpointed) {
    role.recompute.kind = RecomputeKind::full;
    // With adapters under ZeRO 3 it is forced since 1.8.
    role.recompute.reentrant = s.reentrant || (s.lora > 0 && s.zero3() && s.since(1, 8));
  }
  set_sharding(s, role);
  set_precision(s, role);
  set_attention(s, role);
  set_loss(s, role);
  role.fused_kernels = s.liger;
  role.activation_offload = trained && s.offload_activations;
  role.train.sequences = s.one_row() ? 1 : s.rows();
  if (s.trainer != Trainer::ppo) role.mini_batch = role.train.sequences * s.accum * s.gpus;
  // Dropout's modules are switched off, or on as the trainer has it; functional calls follow the mode.
  const bool functional = family_facts(model->family).functional_dropout;
  if (s.online()) {
    role.training_mode_forward = role.dropout = true;
    // Releases before 0.17 scored a whole generation at once.
    if (!s.since(0, 17)) role.forward.sequences = s.rows() * s.steps_per_generation;
  } else if (s.trainer == Trainer::ppo) {
    role.training_mode_forward = role.dropout = trained && functional;
    role.forward.sequences = s.rollout_batch;
    role.epochs = s.epochs;
  } else {
    role.dropout = trained && (s.trainer == Trainer::sft || functional);
    // What runs without gradients: DPO's reference beforehand, over the data of both, and evaluations. Where these
    // differ, the larger stands for both.
    std::int64_t each = s.precomputes() ? s.precompute_batch.value_or(s.batch) : s.eval_batch;
    if (s.evaluates()) each = std::max(each, s.eval_batch);
    role.forward.sequences = s.one_row() ? 1 : s.pairs() ? 2 * each : each;
  }
  return role;
}

Role make_reference(const Settings& s, const Role& policy) {
  Role role = make_role(s, "ref", HeadKind::language_model, false, s.model, policy.model_name);
  if (s.lora > 0) {
    role = policy;
    role.name = "ref";
    role.trained = false;
    role.optimizer = {};
    role.recompute = {};
    role.lora.reset();
    role.shares_weights_of = "actor";
  }
  return role;
}

}  // namespace

std::vector<Role> make_roles(const Settings& s) {
  constexpr HeadKind kWords = HeadKind::language_model, kScore = HeadKind::scalar;
  std::vector<Role> out = {make_role(s, "actor", s.trainer == Trainer::reward ? kScore : kWords, true,
                                     s.model, s.trainer == Trainer::ppo ? s.sft_model : s.model_name)};
  if (s.trainer == Trainer::ppo) {
    out.push_back(make_role(s, "critic", kScore, true, s.reward_model, s.reward_path));
    out.back().lora.reset();
    set_precision(s, out.back());
    out.push_back(make_reference(s, out.front()));
    out.push_back(make_role(s, "reward", kScore, false, s.reward_model, s.reward_path));
    return out;
  }
  if (s.has_reference() && !s.precompute) out.push_back(make_reference(s, out.front()));
  if (s.online() && s.reward_model != nullptr) {
    out.push_back(make_role(s, "reward", kScore, false, s.reward_model, s.reward_name));
    out.back().forward.sequences = 0;
  }
  return out;
}

}  // namespace headroom::trl

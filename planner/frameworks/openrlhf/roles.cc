#include <algorithm>

#include "planner/frameworks/openrlhf/job.h"
#include "planner/frameworks/settings/deepspeed.h"

namespace headroom::openrlhf {
namespace {

constexpr ShardingKind kStages[] = {ShardingKind::zero0, ShardingKind::zero1, ShardingKind::zero2,
                                    ShardingKind::zero3};

DType stored(const Settings& s) {
  // Without --bf16, releases that have it load what the checkpoint has; DeepSpeed then insists on fp32.
  if (!s.since(0, 9, 2) && !s.bf16) return DType::fp32;
  return parse_dtype(s.precision).value_or(DType::bf16);
}

/// Ranks of a group that see different sequences.
std::int64_t data_ranks(const Settings& s, const std::string& role) {
  return std::max<std::int64_t>(1, group_size(s, role) / (s.ring * s.tensor));
}

/// Sequences of the longest kind that fit a budget of all ring and tensor ranks together.
std::int64_t fitting(const Settings& s, std::int64_t budget) {
  return std::max<std::int64_t>(1, budget * s.ring * s.tensor / s.sequence_length());
}

/// Dynamic batches are cut to a number of micro-batches, not to the budget: the contents are spread evenly
/// over it, and it is rounded down to a multiple of the ranks when log-probs are taken.
std::int64_t dynamic_train(const Settings& s, const std::string& role) {
  const std::int64_t mine = std::max<std::int64_t>(1, s.train_batch / data_ranks(s, role));
  return ceil_div(mine, ceil_div(mine, fitting(s, s.train_tokens)));
}
std::int64_t dynamic_forward(const Settings& s, const std::string& role) {
  const std::int64_t all = s.rollout_batch * s.samples, ranks = data_ranks(s, role);
  const std::int64_t least = ceil_div(all, fitting(s, s.rollout_tokens.value_or(s.train_tokens)));
  return ceil_div(all, std::max(ranks, least / ranks * ranks));
}

MicroBatch micro_batch(const Settings& s, std::int64_t sequences) {
  MicroBatch out;
  out.sequences = sequences;
  out.round_to = s.ring;
  return out;
}

void set_sharding(const Settings& s, Role& role, bool offload) {
  Sharding& z = role.sharding;
  const auto stage = static_cast<std::size_t>(s.stage);
  z.kind = role.trained ? kStages[stage] : s.stage == 3 ? ShardingKind::zero3 : ShardingKind::zero0;
  // "auto" sizes are left to DeepSpeed's own defaults, which are Sharding's.
  z.overlap_communication = s.overlap || s.stage == 3;
  z.sharded_as_built = s.stage == 3;  // Transformers sees DeepSpeed's configuration while it loads
  z.pin_memory = true;
  settings::set_deepspeed_release(s.versions.deepspeed, true, z);
  if (role.trained) {
    z.offload_optimizer = s.adam_offload;
    role.optimizer.implementation =
        s.adam_offload ? OptimizerImplementation::cpu : OptimizerImplementation::apex;
  } else {
    z.offload_parameters = offload && s.stage == 3;
  }
}

void set_attention(const Settings& s, Role& role) {
  role.packed = s.packing || s.dynamic || s.ring > 1;
  const bool flash =
      s.since(0, 8, 11) ? s.attention.find("flash") != std::string::npos : s.flash || s.packing;
  const bool eager = s.since(0, 8, 11) ? s.attention == "eager" : !flash;
  role.attention = role.packed ? AttentionImplementation::flash_varlen
                   : eager     ? AttentionImplementation::eager
                   : flash     ? AttentionImplementation::flash
                               : AttentionImplementation::sdpa;
  role.attention_mask = !role.packed;
}

void set_loss(const Settings& s, Role& role) {
  if (role.head != HeadKind::language_model) return;
  LossSpec& loss = role.loss;
  loss.logits_fp32 = true;
  loss.token_logprob = s.since(0, 6) ? TokenLogprob::flash_cross_entropy : TokenLogprob::log_softmax;
  loss.overwrites_logits = false;
  // PPO's step is a function; SFT's loop is one, whose variables live on; DPO's forward returns without the logits.
  loss.keeps_logits = role.trained && s.program != Program::dpo;
  loss.logits_end = s.rl() ? LogitsEnd::step : LogitsEnd::next;
  // A temperature came with 0.6.2; what SFT and DPO compare is never divided.
  loss.divides_logits = s.rl() && s.temperature != 1 && s.since(0, 6, 2);
  if (role.trained && s.program == Program::dpo) loss.reference = "ref";
  loss.kl = role.trained && s.kl_loss && s.has_reference();
  if (!role.trained || s.entropy.empty()) return;
  const double coefficient = Document::scalar(s.entropy).as_double().value_or(0);
  if (coefficient == 0 && !s.since(0, 8, 5)) return;
  loss.train_entropy = coefficient == 0 ? Entropy::forward : Entropy::backward;
  loss.keeps_unused_graph = coefficient == 0;
  loss.entropy_compiled = true;
}

Role make_role(const Settings& s, const std::string& name, bool trained, HeadKind head,
               const std::shared_ptr<const Architecture>& model, const std::string& path, bool offload) {
  Role role;
  role.name = name;
  role.model_name = path;
  role.model = model;
  role.head = head;
  role.trained = trained;
  role.precision.weights = role.precision.compute = role.precision.gradients = role.precision.reduce =
      stored(s);
  role.precision.gradient_scaler = stored(s) == DType::fp16;
  role.parallel.tensor = s.tensor;
  role.parallel.context = s.ring;
  set_sharding(s, role, offload);
  set_attention(s, role);
  set_loss(s, role);
  role.fused_kernels = s.liger && (name == "actor" || name == "ref");
  const std::int64_t rows = s.rows_a_sample();
  role.train = micro_batch(s, s.dynamic ? dynamic_train(s, name) : s.micro_train * rows);
  role.forward = micro_batch(s, !s.rl()     ? role.train.sequences
                                : s.dynamic ? dynamic_forward(s, name)
                                            : s.micro_rollout);
  role.mini_batch = s.train_batch * rows;
  role.epochs = s.epochs;
  if (trained && s.checkpointing) {
    role.recompute.kind = RecomputeKind::full;
    role.recompute.reentrant = s.reentrant;
  }
  if (trained && s.lora_rank > 0) {
    LoraSpec lora;
    lora.rank = s.lora_rank;
    lora.dropout = s.lora_dropout > 0;
    lora.targets = s.lora_targets.empty() ? std::vector<std::string>{"all-linear"} : s.lora_targets;
    lora.dtype = stored(s);
    role.lora = lora;
    role.inputs_require_grad = true;
  }
  return role;
}

}  // namespace

std::int64_t group_size(const Settings& s, const std::string& role) {
  if (s.colocate_all || role == "actor" || role == "ema") return s.actor.size();
  if (role == "ref") return s.colocate_actor_ref ? s.actor.size() : s.ref.size();
  if (role == "critic") return s.critic.size();
  return s.colocate_critic_reward ? s.critic.size() : s.reward.size();
}

std::vector<Role> make_roles(const Settings& s) {
  const HeadKind head = s.program == Program::rm ? HeadKind::scalar : HeadKind::language_model;
  std::vector<Role> roles{make_role(s, "actor", true, head, s.model, s.pretrain, false)};
  const std::string reference = s.ref_pretrain.empty() ? s.pretrain : s.ref_pretrain;
  if (s.ema) roles.push_back(make_role(s, "ema", false, HeadKind::language_model, s.model, s.pretrain, true));
  if (s.has_reference())
    roles.push_back(make_role(s, "ref", false, HeadKind::language_model,
                              s.ref_model ? s.ref_model : s.model, reference, s.ref_offload));
  // One flag offloads both up to 0.10.1.
  if (s.has_reward())
    roles.push_back(make_role(s, "reward", false, HeadKind::scalar, s.reward_model, s.reward_pretrain,
                              s.reward_offload || (s.release < kDotted && s.ref_offload)));
  if (s.has_critic())
    roles.push_back(make_role(s, "critic", true, HeadKind::scalar, s.critic_model, s.critic_pretrain, false));
  return roles;
}

}  // namespace headroom::openrlhf

#include <algorithm>

#include "models/architecture/family.h"
#include "planner/frameworks/torch/settings.h"
#include "simulator/job/actions.h"
#include "simulator/job/names.h"

namespace headroom::torch {
namespace {

/// The recorder's mark of a phase in its traces.
constexpr Bytes kMarker = 7777;

Precision precision_of(const Settings& s, bool trained) {
  Precision p;
  p.autocast = s.precision == "amp";
  p.compute = p.autocast ? s.amp_dtype : DType::bf16;
  p.gradient_scaler = trained && s.grad_scaler;
  if (!trained) {
    p.weights = s.frozen_dtype.value_or(s.precision == "fp32" ? DType::fp32 : DType::bf16);
    p.gradients = p.weights;
    if (!p.autocast) p.compute = p.weights;
    if (s.precision == "fsdp" && s.shard_frozen) p.compute = DType::bf16;
    return p;
  }
  if (s.precision == "fp16") p.weights = p.compute = DType::fp16;
  if (s.precision == "amp" || s.precision == "fp32" || s.precision == "fsdp") p.weights = DType::fp32;
  if (s.precision == "fp32") p.compute = DType::fp32;
  if (s.precision == "master") p.master = DType::fp32;
  p.gradients = p.weights;
  return p;
}

TokenLogprob token_logprob_of(const std::string& word) {
  if (word == "cross_entropy") return TokenLogprob::cross_entropy;
  if (word == "logsumexp") return TokenLogprob::logsumexp;
  if (word == "fused") return TokenLogprob::fused_linear;
  if (word == "selective") return TokenLogprob::selective_log_softmax;
  return TokenLogprob::log_softmax;
}

OptimizerImplementation adam_of(const std::string& word) {
  if (word == "fused") return OptimizerImplementation::fused;
  if (word == "loop") return OptimizerImplementation::loop;
  if (word == "8bit") return OptimizerImplementation::eight_bit;
  return OptimizerImplementation::foreach_;
}

Role make_role(const Settings& s, const std::string& name) {
  Role role;
  role.name = name;
  const bool body = name == "actor" || name == "ref";
  role.trained = name == "actor" || name == "critic" || s.algo == "reward_model";
  role.model = body || s.algo == "reward_model" ? s.actor : s.critic;
  role.model_name = role.model->family;
  role.head = body ? HeadKind::language_model : HeadKind::scalar;
  role.precision = precision_of(s, role.trained);
  role.training_mode_forward = role.trained;
  role.dropout = !s.dropout_off || family_facts(role.model->family).functional_dropout;
  role.attention = s.attn == "eager" ? AttentionImplementation::eager : AttentionImplementation::sdpa;
  role.attention_kernel = enum_from<AttentionKernel>(s.sdpa_kernel).value_or(AttentionKernel::by_gpu);
  role.attention_mask = s.pass_mask && body;
  role.loss.token_logprob = token_logprob_of(s.token_logprob);
  if (s.token_logprob == "fused") role.loss.chunk = s.fused_chunk;
  role.loss.logits_fp32 = s.logits_fp32 && s.token_logprob != "fused";
  role.loss.kl = true;
  if (s.entropy != "none") role.loss.train_entropy = Entropy::backward;
  if (s.entropy == "chunked") role.loss.entropy_chunk = s.entropy_chunk;
  role.train.sequences = s.micro_batch;
  role.offload_optimizer_pinned = false;
  role.forward.sequences = s.logprob_micro_batch;
  if (role.trained) {
    role.optimizer.implementation = adam_of(s.adam);
    role.optimizer.clip = s.clip;
    if (s.grad_ckpt) role.recompute.kind = RecomputeKind::full;
    role.recompute.reentrant = s.reentrant;
    role.recompute.every = s.grad_ckpt_every;
    role.activation_offload = s.activation_offload;
    if (s.lora > 0)
      role.lora = LoraSpec{.rank = s.lora,
                           .targets = name == "critic" ? s.critic_targets : s.actor_targets,
                           .saved_modules = {}};
  }
  if (s.precision == "fsdp" && (role.trained || s.shard_frozen)) {
    role.sharding.kind = ShardingKind::fsdp2;
    role.sharding.reshard_after_forward = s.reshard_after_forward;
    role.sharding.cpu_offload = s.cpu_offload || (!role.trained && s.ref_offload);
  }
  return role;
}

/// Builds the phases in the order of the loop's code.
class Steps {
 public:
  Steps(const Settings& settings, std::vector<std::string> roles) : s_(settings), roles_(std::move(roles)) {}

  std::vector<PhaseSpec> start() const {
    PhaseSpec init = phase(PhaseKind::init);
    for (const std::string& role : roles_) init.actions.push_back(role_action(Verb::build, role));
    for (const std::string& role : roles_)
      if (trained(role) || s_.algo == "reward_model")
        init.actions.push_back(role_action(Verb::build_optimizer, role));
    PhaseSpec after = between_phases();
    if (s_.empty_after_init) after.actions.push_back(role_action(Verb::empty_cache, roles_.front()));
    if (s_.ems)
      for (const std::string& role : roles_) unload(after, role);
    if (s_.world == 1) return {init, after};
    return {between(Verb::join_group), init, after};
  }

  std::vector<PhaseSpec> step() const {
    if (s_.algo != "ppo" && s_.algo != "grpo") return step_on_data();
    std::vector<PhaseSpec> out;
    out.push_back(between(Verb::take_prompts));
    PhaseSpec generate = phase(PhaseKind::generate);
    load(generate, "actor");
    Action responses = role_action(Verb::generate, "actor");
    if (!s_.no_generate) responses.engine = "rollout";
    generate.actions.push_back(responses);
    unload(generate, "actor");
    out.push_back(generate);
    out.push_back(between(Verb::drop_prompts));
    out.push_back(forward(PhaseKind::actor_logprob, "actor", Output::logprobs));
    if (has("ref")) out.push_back(forward(PhaseKind::ref_logprob, "ref", Output::logprobs));
    out.push_back(between(Verb::take_rewards));
    if (has("reward")) out.push_back(forward(PhaseKind::reward, "reward", Output::rewards));
    if (has("critic")) out.push_back(forward(PhaseKind::critic_values, "critic", Output::values));
    out.push_back(between(Verb::experience));
    out.push_back(train(PhaseKind::train_actor, "actor"));
    if (has("critic")) out.push_back(train(PhaseKind::train_critic, "critic"));
    out.push_back(between(Verb::end_step));
    return out;
  }

 private:
  /// SFT, reward models and DPO: sequences come from outside.
  std::vector<PhaseSpec> step_on_data() const {
    const std::string& role = roles_.front();
    std::vector<PhaseSpec> out = {between(Verb::take_prompts)};
    out.push_back(between_phases({role_action(Verb::generate, role)}));
    out.push_back(between(Verb::drop_prompts));
    if (has("ref")) out.push_back(forward(PhaseKind::ref_logprob, "ref", Output::logprobs));
    out.push_back(train(role == "actor" ? PhaseKind::train_actor : PhaseKind::train_critic, role));
    out.push_back(between(Verb::end_step));
    return out;
  }

  static bool trained(const std::string& role) { return role == "actor" || role == "critic"; }
  bool has(const std::string& role) const {
    return std::find(roles_.begin(), roles_.end(), role) != roles_.end();
  }
  PhaseSpec phase(PhaseKind kind) const {
    PhaseSpec out = make_phase(kind);
    const bool training = kind == PhaseKind::train_actor || kind == PhaseKind::train_critic;
    out.empties_cache = s_.empty_cache == "all" || (s_.empty_cache == "inference" && !training) ||
                        (s_.empty_cache == "training" && training);
    return out;
  }
  PhaseSpec between(Verb verb) const { return between_phases({role_action(verb, roles_.front())}); }
  void load(PhaseSpec& phase, const std::string& role) const {
    if (s_.ems) phase.actions.push_back(parts_action(Verb::load, role, kWeights));
  }
  void unload(PhaseSpec& phase, const std::string& role) const {
    if (!s_.ems) return;
    phase.actions.push_back(parts_action(Verb::offload, role, kWeights));
    phase.actions.push_back(role_action(Verb::empty_cache, role));
  }
  PhaseSpec forward(PhaseKind kind, const std::string& role, Output output) const {
    PhaseSpec out = phase(kind);
    load(out, role);
    out.actions.push_back(role_action(Verb::forward, role, output));
    unload(out, role);
    return out;
  }
  PhaseSpec train(PhaseKind kind, const std::string& role) const {
    PhaseSpec out = phase(kind);
    load(out, role);
    if (s_.ems) {
      Action states = parts_action(Verb::load, role, kOptimizer);
      states.from_step_one = true;
      out.actions.push_back(states);
    }
    out.actions.push_back(role_action(Verb::train, role));
    if (s_.ems) out.actions.push_back(parts_action(Verb::offload, role, kOptimizer));
    unload(out, role);
    return out;
  }

  const Settings& s_;
  std::vector<std::string> roles_;
};

Algorithm algorithm_of(const std::string& word) {
  if (word == "grpo") return Algorithm::grpo;
  if (word == "sft") return Algorithm::sft;
  if (word == "reward_model") return Algorithm::reward_model;
  if (word == "dpo") return Algorithm::dpo;
  return Algorithm::ppo;
}

std::vector<std::string> roles_of(const Settings& s) {
  if (s.algo == "sft") return {"actor"};
  if (s.algo == "reward_model") return {"reward"};
  std::vector<std::string> roles = {"actor"};
  if (s.use_ref) roles.push_back("ref");
  if (s.algo == "ppo") roles.push_back("critic");
  if (s.use_reward) roles.push_back("reward");
  return roles;
}

}  // namespace

Job make_job(const Settings& s) {
  Job job = cases::frame(s.name, "torch", s, s.world);
  job.algorithm = algorithm_of(s.algo);
  const std::vector<std::string> roles = roles_of(s);
  for (const std::string& role : roles) job.roles.push_back(make_role(s, role));
  if (!s.no_generate && (s.algo == "ppo" || s.algo == "grpo")) {
    job.engines.push_back(cases::generation_by(s.actor));
  }
  Process trainer = cases::trainer_of(job, s);
  trainer.communicators = s.world > 1 ? 1 : 0;
  job.processes.push_back(trainer);
  job.batch.prompts = s.batch * s.world;
  job.batch.mini_batch = s.batch * s.world;
  job.batch.epochs = s.epochs;
  job.batch.prompt_length = s.prompt;
  job.batch.response_length = s.response;
  job.steps = s.steps;
  job.phase_marker = s.trace ? kMarker : 0;
  job.records_history = s.traces_stacks;
  const Steps steps(s, roles);
  job.start = steps.start();
  job.step = steps.step();
  return job;
}

}  // namespace headroom::torch

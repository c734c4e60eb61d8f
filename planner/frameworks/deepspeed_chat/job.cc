#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/architecture/family.h"
#include "planner/frameworks/deepspeed_chat/loop.h"
#include "planner/frameworks/deepspeed_chat/settings.h"
#include "simulator/job/actions.h"

namespace headroom::deepspeed_chat {
namespace {

constexpr std::array<const char*, 4> kRoles = {"actor", "ref", "critic", "reward"};

ShardingKind sharding_of(std::int64_t stage) {
  constexpr ShardingKind kKinds[] = {ShardingKind::zero0, ShardingKind::zero1, ShardingKind::zero2,
                                     ShardingKind::zero3};
  return kKinds[stage];
}

/// Scripts switch the actor's dropout off by the names that most configurations give it. The critic's stays
/// as its family has it.
bool has_dropout(const Role& role) {
  return role.name != "actor" || family_facts(role.model->family).own_dropout_names;
}

Role make_role(const Settings& s, const std::string& name) {
  Role role;
  role.name = name;
  role.loop = &kChatLoop;
  const bool body = name == "actor" || name == "ref";
  role.trained = name == "actor" || name == "critic";
  role.model = body ? s.actor : s.critic;
  role.model_name = role.model->family;
  role.head = body ? HeadKind::language_model : HeadKind::scalar;
  role.precision.weights = role.precision.compute = role.precision.gradients = role.precision.reduce =
      s.dtype;
  role.precision.gradient_scaler = s.dtype == DType::fp16;
  if (s.dtype == DType::fp16) role.precision.skipped_steps = skipped_steps(s.initial_scale_power);
  role.training_mode_forward = role.trained;
  role.dropout = has_dropout(role);
  role.attention_mask = true;
  role.attention = cases::default_attention(*role.model);
  role.padded = s.padded;
  Sharding& sharding = role.sharding;
  // Engines that only evaluate are spread like the trained ones at stage 3, else not at all.
  sharding.kind = sharding_of(role.trained || s.zero_stage == 3 ? s.zero_stage : 0);
  sharding.persistence_threshold = s.persistence_threshold;
  sharding.overlap_communication = true;
  if (!role.trained)
    sharding.offload_parameters = s.zero_stage == 3 && (body ? s.offload_reference : s.offload_reward);
  if (role.trained) {
    sharding.overlap_communication = s.overlap_communication;
    sharding.contiguous_gradients = s.contiguous_gradients;
    sharding.reduce_bucket = s.reduce_bucket;
    sharding.allgather_bucket = s.allgather_bucket;
    sharding.prefetch_bucket = s.prefetch_bucket;
    sharding.max_live_parameters = s.max_live_parameters;
    sharding.max_reuse_distance = s.max_reuse_distance;
    sharding.offload_optimizer = s.offload;
    sharding.offload_parameters = s.offload && s.zero_stage == 3;
    sharding.pin_memory = s.pin_memory;
    role.optimizer.implementation = s.offload ? OptimizerImplementation::cpu : OptimizerImplementation::apex;
    if (s.grad_ckpt) role.recompute.kind = RecomputeKind::full;
    if (const std::int64_t rank = body ? s.actor_lora : s.critic_lora; rank > 0) {
      LoraSpec lora;
      lora.rank = rank;
      lora.targets = {"all-linear"};
      lora.dtype = s.dtype;
      lora.rest_trains = !s.only_lora;
      role.lora = lora;
    }
  }
  return role;
}

/// Engines of stages 1 to 3, and the bf16 optimizer of stage 0, report memory when they are done, which
/// resets the peak counters.
bool reports_memory(const Role& role) {
  return role.sharding.kind != ShardingKind::zero0 || (role.trained && role.precision.weights == DType::bf16);
}

/// Each engine in turn, the cache emptied before.
std::vector<PhaseSpec> start_of(const Job& job) {
  std::vector<PhaseSpec> out;
  for (const Role& role : job.roles) {
    if (!out.empty()) out.push_back(between_phases({role_action(Verb::empty_cache, "actor")}));
    PhaseSpec init = make_phase(PhaseKind::init, {role_action(Verb::build, role.name)}, "init_" + role.name);
    if (reports_memory(role)) init.actions.push_back(role_action(Verb::reset_peaks, role.name));
    out.push_back(std::move(init));
  }
  return out;
}

std::vector<PhaseSpec> step_of(const Settings& s) {
  Action generate = role_action(Verb::generate, "actor");
  generate.engine = "rollout";
  std::vector<PhaseSpec> out = {
      between_phases({call_action("actor", "take_batch")}),
      make_phase(PhaseKind::generate, {generate}, "generate"),
      between_phases({call_action("actor", "make_mask")}),
      make_phase(PhaseKind::actor_logprob, {call_action("actor", "keep_logits")}, "actor_logprob"),
      make_phase(PhaseKind::ref_logprob, {call_action("ref", "keep_logits")}, "ref_logprob"),
      make_phase(PhaseKind::reward, {role_action(Verb::forward, "reward", Output::rewards)}, "reward"),
      make_phase(PhaseKind::critic_values, {role_action(Verb::forward, "critic", Output::values)},
                 "critic_values"),
      make_phase(PhaseKind::actor_logprob, {call_action("actor", "gather_logprobs")}, "gather_logprobs"),
      between_phases({call_action("actor", "drop_outputs")}),
      make_phase(PhaseKind::actor_logprob, {}, "experience_end"),
      make_phase(PhaseKind::train_actor, {role_action(Verb::train, "actor")}, "train_actor"),
      make_phase(PhaseKind::train_critic, {role_action(Verb::train, "critic")}, "train_critic"),
      between_phases({call_action("actor", "end_update")}),
  };
  for (PhaseSpec& p : out) {
    const bool training = p.kind == PhaseKind::train_actor || p.kind == PhaseKind::train_critic;
    p.empties_cache = p.reported && p.name != "gather_logprobs" &&
                      (s.empty_cache == "all" || (s.empty_cache == "inference" && !training));
  }
  return out;
}

}  // namespace

Job make_job(const Settings& s) {
  Job job = cases::frame(s.name, "deepspeed-chat", s, s.world);
  job.algorithm = Algorithm::ppo;
  job.versions.deepspeed = "0.16.4";
  for (const char* role : kRoles) job.roles.push_back(make_role(s, role));
  Process trainer = cases::trainer_of(job, s);
  // DeepSpeed clones the world's group; stage 3 works in both.
  trainer.communicators = s.zero_stage == 3 ? 2 : 1;
  job.processes.push_back(trainer);
  job.engines.push_back(cases::generation_by(s.actor));
  job.batch.prompts = s.batch * s.world;
  job.batch.mini_batch = s.batch * s.world;
  job.batch.prompt_length = s.prompt;
  job.batch.response_length = s.response;
  const std::int64_t skipped = job.roles.front().precision.skipped_steps;
  job.steps = s.steps_given ? s.steps : static_cast<int>(s.steps + skipped);
  job.start = start_of(job);
  job.step = step_of(s);
  return job;
}

void note_skipped_steps(Job& job) {
  const std::int64_t skipped = job.roles.front().precision.skipped_steps;
  if (skipped == 0) return;
  job.assumptions.push_back(
      fmt::format("the first {} steps overflow fp16 and are skipped, while the loss scale falls", skipped));
  if (job.steps <= skipped)
    job.not_modelled.push_back(fmt::format(
        "the optimizer's states: each of the {} steps is taken to overflow; --steps {} reaches one that runs",
        job.steps, skipped + 1));
}

}  // namespace headroom::deepspeed_chat

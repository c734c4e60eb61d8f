#include <algorithm>

#include "planner/frameworks/trl/settings.h"
#include "simulator/job/actions.h"

namespace headroom::trl {
namespace {

Role make_policy(const Settings& s) {
  Role role;
  role.name = "actor";
  role.trainer = TrainerCode::trl_grpo;
  role.trained = true;
  role.model = s.model;
  role.model_name = role.model->family;
  // bf16 comes through Accelerate's autocast, whatever the weights are loaded in.
  role.precision.weights = role.precision.gradients = s.dtype;
  role.precision.autocast = s.mixed_precision;
  role.precision.compute = s.mixed_precision ? DType::bf16 : s.dtype;
  role.training_mode_forward = true;
  role.dropout = true;
  role.attention_mask = true;
  role.optimizer.implementation = s.optimizer;
  role.train.sequences = s.batch;
  role.loss.kl = s.beta != 0;
  role.loss.temperature_copy = s.temperature != 1;
  if (s.grad_ckpt) role.recompute.kind = RecomputeKind::full;
  if (s.lora > 0) role.lora = LoraSpec{.rank = s.lora, .targets = s.lora_targets, .saved_modules = {}};
  return role;
}

Role make_reference(const Settings& s, const Role& policy) {
  Role role = policy;
  role.name = "ref";
  role.trained = false;
  role.optimizer = {};
  role.recompute = {};
  role.lora.reset();
  if (s.lora > 0) role.shares_weights_of = "actor";
  return role;
}

When first_of(std::int64_t every) {
  return {.every = every, .from = 0, .shift = every - 1};
}

/// A part of the training step's row.
PhaseSpec within_step(PhaseSpec phase) {
  phase.within = "train_actor";
  return phase;
}

/// Every training step: now and then completions for several of them, then one micro-batch, now and then an
/// optimizer step.
std::vector<PhaseSpec> step_of(const Settings& s) {
  const std::int64_t every = s.steps_per_generation * s.num_iterations;
  std::vector<PhaseSpec> out;
  const auto rollout = [&](PhaseSpec spec) {
    spec.when = first_of(every);
    out.push_back(std::move(spec));
  };
  rollout(between_phases({role_action(Verb::end_step, "actor"), role_action(Verb::take_prompts, "actor")}));
  Action generate = role_action(Verb::generate, "actor");
  generate.engine = "rollout";
  rollout(within_step(make_phase(PhaseKind::generate, {generate})));
  rollout(within_step(between_phases({role_action(Verb::experience, "actor")})));
  // Completions that outlive an optimizer step need the policy's log-probs of their own time.
  if (s.accum % every != 0) {
    PhaseSpec own = within_step(make_phase(PhaseKind::actor_logprob, {role_action(Verb::forward, "actor")}));
    own.reported = false;
    rollout(std::move(own));
  }
  if (s.beta != 0)
    rollout(within_step(make_phase(PhaseKind::ref_logprob, {role_action(Verb::forward, "ref")})));
  out.push_back(make_phase(PhaseKind::train_actor,
                           {role_action(Verb::loss, "actor"), role_action(Verb::backward, "actor")}));
  PhaseSpec update = make_phase(PhaseKind::train_actor, {role_action(Verb::optimizer_step, "actor")});
  update.when.every = s.accum;
  out.push_back(std::move(update));
  return out;
}

}  // namespace

Job make_frame(const Settings& s) {
  Job job = cases::frame(s.name, "trl", s);
  job.versions.framework = "1.9.0";
  job.batch.prompt_length = s.prompt;
  job.batch.response_length = s.response;
  return job;
}

Job make_grpo_job(const Settings& s) {
  Job job = make_frame(s);
  job.algorithm = Algorithm::grpo;
  job.roles.push_back(make_policy(s));
  if (s.beta != 0) job.roles.push_back(make_reference(s, job.roles.front()));
  job.engines.push_back(cases::generation_by(s.model));
  job.processes.push_back(cases::trainer_of(job, s));
  job.batch.prompts = s.batch * s.steps_per_generation / s.num_generations;
  job.batch.samples = s.num_generations;
  job.batch.mini_batch = s.batch * s.steps_per_generation;
  job.steps = static_cast<int>(s.steps * s.accum);
  PhaseSpec init = make_phase(PhaseKind::init);
  for (const Role& role : job.roles)
    if (role.shares_weights_of.empty()) init.actions.push_back(role_action(Verb::build, role.name));
  init.actions.push_back(role_action(Verb::build_optimizer, "actor"));
  job.start = {init};
  job.step = step_of(s);
  return job;
}

}  // namespace headroom::trl

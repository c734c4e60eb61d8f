#include <algorithm>

#include "planner/frameworks/trl/loops.h"
#include "planner/frameworks/trl/settings.h"
#include "simulator/job/actions.h"

namespace headroom::trl {
namespace {

Role make_policy(const Settings& s) {
  Role role;
  role.name = "actor";
  role.loop = &kGrpoLoop;
  role.loaded_into_cache = true;
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
  role.attention = cases::default_attention(*role.model);
  role.optimizer.implementation = s.optimizer;
  role.train.sequences = s.batch;
  role.mini_batch = s.batch * s.accum;
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

PhaseSpec part(std::string within, PhaseKind kind, std::vector<Action> actions, const char* name) {
  PhaseSpec out = make_phase(kind, std::move(actions), name);
  out.within = std::move(within);
  return out;
}

PhaseSpec unshown(std::string within, std::string call) {
  PhaseSpec out = between_phases({call_action("actor", std::move(call))});
  out.within = std::move(within);
  return out;
}

/// Completions for the next training steps, and what scores them.
std::vector<PhaseSpec> rollout_of(const Settings& s) {
  Action generate = role_action(Verb::generate, "actor");
  generate.engine = "rollout";
  std::vector<PhaseSpec> out = {part("rollout", PhaseKind::generate, {generate}, "generate"),
                                unshown("rollout", "pad_completions")};
  // With adapters the reference is the policy itself: its forwards have one name.
  const char* own = s.lora > 0 && s.beta != 0 ? "ref_logprob" : "old_logprob";
  // Completions that outlive an optimizer step need the policy's log-probs of their own time.
  if (s.accum % (s.steps_per_generation * s.num_iterations) != 0)
    out.push_back(part("rollout", PhaseKind::actor_logprob, {role_action(Verb::forward, "actor")}, own));
  if (s.beta != 0)
    out.push_back(
        part("rollout", PhaseKind::ref_logprob, {role_action(Verb::forward, "ref")}, "ref_logprob"));
  out.push_back(part("rollout", PhaseKind::reward, {call_action("actor", "score")}, "reward"));
  out.push_back(unshown("rollout", "make_advantages"));
  out.push_back(part("train_step", PhaseKind::generate, {}, "rollout"));
  out.push_back(unshown("train_step", "shuffle"));
  return out;
}

/// Every training step: now and then completions for several of them, then one micro-batch, now and then an
/// optimizer step. Rows are the trainer's calls within its calls.
std::vector<PhaseSpec> step_of(const Settings& s) {
  constexpr PhaseKind kTrain = PhaseKind::train_actor;
  std::vector<PhaseSpec> out = {between_phases({call_action("actor", "add_up_loss")})};
  for (PhaseSpec& spec : rollout_of(s)) {
    spec.when = first_of(s.steps_per_generation * s.num_iterations);
    out.push_back(std::move(spec));
  }
  out.push_back(unshown("loss_forward", "join_micro_batch"));
  out.push_back(part("loss_forward", kTrain, {call_action("actor", "forward_logprobs")}, "forward_logps"));
  out.push_back(unshown("loss_forward", "form_loss"));
  out.push_back(part("train_step", kTrain, {}, "loss_forward"));
  out.push_back(part("train_step", kTrain, {call_action("actor", "backward")}, "backward"));
  out.push_back(unshown("train_step", "detach_loss"));
  out.push_back(part("train_actor", kTrain, {}, "train_step"));
  out.push_back(unshown("train_actor", "add_up_loss"));
  std::vector<PhaseSpec> update = {
      between_phases({call_action("actor", "clip")}),
      part("train_actor", kTrain, {call_action("actor", "step")}, "optimizer_step"),
      between_phases({parts_action(Verb::release, "actor", kGradients)})};
  update.front().within = "train_actor";
  for (PhaseSpec& spec : update) {
    spec.when.every = s.accum;
    out.push_back(std::move(spec));
    if (out.back().name == "optimizer_step") out.push_back(make_phase(kTrain));
  }
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

#include <algorithm>

#include "planner/frameworks/trl/settings.h"

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

Action act(Verb verb, const std::string& role) {
  Action action;
  action.verb = verb;
  action.role = role;
  return action;
}

/// A phase; `within` the row of the training step when it is a part of one.
PhaseSpec phase(PhaseKind kind, std::vector<Action> actions, const char* within = "") {
  PhaseSpec out;
  out.kind = kind;
  out.actions = std::move(actions);
  out.within = within;
  return out;
}

PhaseSpec hidden(PhaseSpec phase) {
  phase.reported = false;
  return phase;
}

When first_of(std::int64_t every) {
  return {.every = every, .from = 0, .shift = every - 1};
}

constexpr const char* kStep = "train_actor";

/// Every training step: now and then completions for several of them, then one micro-batch, now and then an
/// optimizer step.
std::vector<PhaseSpec> step_of(const Settings& s) {
  const std::int64_t every = s.steps_per_generation * s.num_iterations;
  std::vector<PhaseSpec> out;
  const auto rollout = [&](PhaseSpec spec) {
    spec.when = first_of(every);
    out.push_back(std::move(spec));
  };
  rollout(hidden(
      phase(PhaseKind::empty_cache, {act(Verb::end_step, "actor"), act(Verb::take_prompts, "actor")})));
  Action generate = act(Verb::generate, "actor");
  generate.engine = "rollout";
  rollout(phase(PhaseKind::generate, {generate}, kStep));
  rollout(hidden(phase(PhaseKind::empty_cache, {act(Verb::experience, "actor")}, kStep)));
  // Completions that outlive an optimizer step need the policy's log-probs of their own time.
  if (s.accum % every != 0)
    rollout(hidden(phase(PhaseKind::actor_logprob, {act(Verb::forward, "actor")}, kStep)));
  if (s.beta != 0) rollout(phase(PhaseKind::ref_logprob, {act(Verb::forward, "ref")}, kStep));
  out.push_back(phase(PhaseKind::train_actor, {act(Verb::loss, "actor"), act(Verb::backward, "actor")}));
  PhaseSpec update = phase(PhaseKind::train_actor, {act(Verb::optimizer_step, "actor")});
  update.when.every = s.accum;
  out.push_back(std::move(update));
  return out;
}

}  // namespace

Job make_job(const Settings& s) {
  Job job;
  job.name = s.name;
  job.framework = "trl";
  job.algorithm = Algorithm::grpo;
  job.versions.framework = "1.9.0";
  job.gpu = s.device;
  job.device_memory = s.total_memory;
  job.pools.emplace_back();
  job.roles.push_back(make_policy(s));
  if (s.beta != 0) job.roles.push_back(make_reference(s, job.roles.front()));
  Engine engine;
  engine.kind = EngineKind::transformers;
  engine.model = s.model;
  job.engines.push_back(engine);
  Process trainer;
  trainer.name = "trainer";
  for (const Role& role : job.roles) trainer.roles.push_back(role.name);
  trainer.allocator_settings = s.allocator_settings;
  job.processes.push_back(trainer);
  job.batch.prompts = s.batch * s.steps_per_generation / s.num_generations;
  job.batch.samples = s.num_generations;
  job.batch.mini_batch = s.batch * s.steps_per_generation;
  job.batch.prompt_length = s.prompt;
  job.batch.response_length = s.response;
  job.steps = static_cast<int>(s.steps * s.accum);
  PhaseSpec init = phase(PhaseKind::init, {});
  for (const Role& role : job.roles)
    if (role.shares_weights_of.empty()) init.actions.push_back(act(Verb::build, role.name));
  init.actions.push_back(act(Verb::build_optimizer, "actor"));
  job.start = {init};
  job.step = step_of(s);
  return job;
}

}  // namespace headroom::trl

#include "simulator/job/standard_step.h"

#include <algorithm>

#include "simulator/job/step_builder.h"

namespace headroom {
namespace {

/// Engines that serve a role's weights from another process receive them after every update.
void sync(const Job& job, StepBuilder& phases) {
  for (const Engine& engine : job.engines) {
    if (inside_trainer(engine) || engine.role.empty()) continue;
    phases.phase(PhaseKind::weight_sync);
    phases.engine(Verb::sync_weights, engine.role, engine.name);
  }
}

std::vector<PhaseSpec> standard_start(const Job& job) {
  StepBuilder phases;
  phases.phase(PhaseKind::init);
  for (const Role& role : job.roles) {
    if (!role.shares_weights_of.empty()) continue;
    phases.act(Verb::build, role.name);
    if (role.trained) phases.act(Verb::build_optimizer, role.name);
    if (role.trained && job.resumed) phases.act(Verb::create_states, role.name);
  }
  for (const Engine& engine : job.engines) {
    if (inside_trainer(engine)) continue;
    phases.phase(PhaseKind::engine_init);
    phases.engine(Verb::start_engine, "", engine.name);
  }
  sync(job, phases);
  return phases.take();
}

std::vector<PhaseSpec> standard_step(const Job& job) {
  StepBuilder phases;
  bool generates = false;
  for (const Engine& engine : job.engines) {
    if (engine.role.empty()) continue;
    phases.phase(PhaseKind::generate);
    phases.engine(Verb::generate, inside_trainer(engine) ? engine.role : "", engine.name);
    generates = true;
  }
  for (const Engine& engine : job.engines) {
    if (!engine.role.empty()) continue;
    phases.phase(PhaseKind::reward);
    phases.engine(Verb::score, "", engine.name);
  }
  struct Pass {
    const char* role;
    PhaseKind kind;
    Output output;
  };
  constexpr Pass kPasses[] = {{"reward", PhaseKind::reward, Output::rewards},
                              {"actor", PhaseKind::actor_logprob, Output::logprobs},
                              {"ref", PhaseKind::ref_logprob, Output::logprobs},
                              {"critic", PhaseKind::critic_values, Output::values}};
  for (const Pass& pass : kPasses) {
    const Role* role = job.role(pass.role);
    if (role == nullptr || (!generates && role->trained))
      continue;  // supervised training has no old log-probs
    phases.phase(pass.kind);
    phases.forward(role->name, pass.output);
  }
  std::vector<const Role*> trained;
  for (const Role& role : job.roles)
    if (role.trained) trained.push_back(&role);
  std::stable_partition(trained.begin(), trained.end(),
                        [](const Role* role) { return role->name == "critic"; });
  for (const Role* role : trained) {
    phases.phase(role->name == "critic" ? PhaseKind::train_critic : PhaseKind::train_actor);
    phases.act(Verb::train, role->name);
  }
  sync(job, phases);
  return phases.take();
}

}  // namespace

bool inside_trainer(const Engine& engine) {
  return engine.kind == EngineKind::transformers || engine.kind == EngineKind::hybrid;
}

void complete_step(Job& job) {
  if (job.start.empty()) job.start = standard_start(job);
  if (job.step.empty()) job.step = standard_step(job);
}

void complete_processes(Job& job) {
  if (!job.processes.empty()) return;
  Process trainer;
  trainer.name = "trainer";
  for (const Role& role : job.roles) trainer.roles.push_back(role.name);
  for (const Engine& engine : job.engines)
    if (inside_trainer(engine)) trainer.engine = engine.name;
  trainer.communicators = !job.pools.empty() && job.pools.front().gpus() > 1 ? 1 : 0;
  if (!job.roles.empty()) job.processes.push_back(std::move(trainer));
  for (const Engine& engine : job.engines) {
    if (inside_trainer(engine)) continue;
    Process process;
    process.name = engine.name;
    process.engine = engine.name;
    process.communicators =
        (engine.tensor > 1) + (engine.pipeline > 1) + (engine.data > 1) + (engine.expert > 1);
    job.processes.push_back(std::move(process));
  }
}

}  // namespace headroom

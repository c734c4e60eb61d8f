#include "planner/frameworks/nemo_rl/job.h"

#include <algorithm>

namespace headroom::nemo_rl {
namespace {

/// NCCL groups of more than one rank that a trainer uses.
std::int64_t trainer_communicators(const Settings& s) {
  const std::int64_t gpus = s.train_gpus();
  if (gpus == 1) return 0;
  if (s.policy.runs_megatron()) {
    const Megatron& m = s.policy.megatron;
    const std::int64_t data = gpus / (m.tensor * m.pipeline * m.context);
    return 1 + (m.tensor > 1) + 2 * (m.pipeline > 1) + (m.context > 1) + (data > 1) + 2 * (m.expert > 1);
  }
  const Dtensor& d = s.policy.dtensor;
  const std::int64_t refit = s.separate() ? 1 : 0;
  const std::int64_t experts = d.deals_experts() ? 1 + (gpus > d.expert) : 0;
  return 1 + refit + (d.tensor > 1) + (d.context > 1) + 2 * (d.replicate > 1) + (gpus / d.tensor > 1) + experts;
}

void add_processes(Job& job, const Settings& s) {
  Process trainer;
  trainer.name = "trainer";
  for (const Role& role : job.roles) trainer.roles.push_back(role.name);
  trainer.allocator_settings =
      s.policy.runs_megatron() ? s.policy.megatron.allocator_settings : s.policy.dtensor.allocator_settings;
  trainer.communicators = trainer_communicators(s);
  job.processes.push_back(std::move(trainer));
  for (const Engine& engine : job.engines) {
    Process process;
    process.name = "rollout";
    process.engine = engine.name;
    process.communicators =
        (engine.tensor > 1) + (engine.pipeline > 1) + (engine.data > 1) + (engine.expert > 1) + s.separate();
    if (s.separate()) process.pool = "generation";
    job.processes.push_back(std::move(process));
  }
}

}  // namespace

std::int64_t Settings::generation_nodes() const {
  if (!separate()) return 0;
  return nodes == 1 ? 1 : policy.generation.nodes.value_or(0);
}

std::int64_t Settings::generation_gpus_per_node() const {
  if (!separate()) return 0;
  return policy.generation.gpus_per_node.value_or(nodes == 1 ? 0 : gpus_per_node);
}

bool Settings::has_reference() const {
  if (algorithm == Algorithm::dpo) return true;
  if (algorithm != Algorithm::grpo && algorithm != Algorithm::ppo) return false;
  // Until 0.6 it is made whatever the penalty is.
  return !since(0, 7) || kl_penalty > 0;
}

Caps caps(const Settings& s) {
  if (!s.generates()) return {.prompt = s.policy.length, .response = 0};
  const std::int64_t prompt = s.prompt_length < s.policy.length ? s.prompt_length : 1;
  const std::int64_t response =
      std::clamp<std::int64_t>(s.policy.generation.max_new_tokens, 0, s.policy.length - prompt);
  // Prompt and response share one length; the longer the response the longer the generation.
  return {.prompt = s.policy.length - response, .response = response};
}

Result<Job> make_job(const Settings& s) {
  if (auto problem = find_problem(s))
    return fail(Error{.message = std::move(problem->message), .file = {}, .key = std::move(problem->key)});
  Job job;
  job.framework = "nemo-rl";
  constexpr headroom::Algorithm kAlgorithms[] = {
      headroom::Algorithm::grpo, headroom::Algorithm::ppo,          headroom::Algorithm::dpo,
      headroom::Algorithm::sft,  headroom::Algorithm::reward_model, headroom::Algorithm::grpo};
  job.algorithm = kAlgorithms[static_cast<std::size_t>(s.algorithm)];
  job.versions = s.versions;
  job.gpu = s.gpu;
  Pool main;
  main.nodes = s.train_nodes();
  main.gpus_per_node = s.train_gpus_per_node();
  job.pools.push_back(std::move(main));
  if (s.separate()) {
    Pool generation;
    generation.name = "generation";
    generation.nodes = s.generation_nodes();
    generation.gpus_per_node = s.generation_gpus_per_node();
    job.pools.push_back(std::move(generation));
  }
  job.roles = make_roles(s);
  job.engines = make_engines(s);
  add_processes(job, s);
  const Caps lengths = caps(s);
  job.batch.prompts = s.generates() ? s.prompts : s.policy.global_batch * s.rows_a_sample();
  job.batch.samples = s.generates() ? s.samples : 1;
  if (s.async && s.age > 1) job.batch.generated_ahead = s.age;
  job.batch.mini_batch =
      std::min(s.policy.global_batch * s.rows_a_sample(), job.batch.prompts * job.batch.samples);
  job.batch.epochs = s.algorithm == Algorithm::ppo ? s.ppo_epochs : 1;
  job.batch.prompt_length = lengths.prompt;
  job.batch.response_length = lengths.response;
  job.start = make_start(s);
  job.step = make_step(s);
  job.steps = s.steps;
  job.resumed = s.resumed;
  job.helpers = s.loader_workers + (s.generates() ? 9 : 1);  // environments' workers and the driver
  job.assumptions = s.assumptions;
  job.not_modelled = s.not_modelled;
  HEADROOM_TRY(validate_job(job));
  return job;
}

}  // namespace headroom::nemo_rl

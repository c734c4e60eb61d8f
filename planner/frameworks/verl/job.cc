#include "planner/frameworks/verl/job.h"

#include <fmt/format.h>

namespace headroom::verl {
namespace {

/// NCCL groups that the trainer uses: the world (also of one rank, which collectives run in all the same),
/// hybrid sharding's two dimensions, sequence parallelism's two (one rank's own is counted where it is made);
/// Megatron's tensor, pipeline, data, context and expert
/// groups.
std::int64_t trainer_communicators(const Settings& s) {
  if (s.gpus() == 1) return 1;
  const Worker& a = s.actor;
  if (a.strategy == Strategy::megatron) {
    const Megatron& m = a.megatron;
    const std::int64_t data = s.gpus() / (m.tensor * m.pipeline * m.context);
    return 1 + (m.tensor > 1) + 2 * (m.pipeline > 1) + (m.context > 1) + (data > 1) + 2 * (m.expert > 1);
  }
  const bool hybrid = a.fsdp.fsdp_size > 0 && a.fsdp.fsdp_size < s.gpus();
  return 1 + (hybrid ? 2 : 0) + (a.ulysses > 1 ? 1 + (s.gpus() > a.ulysses) : 0);
}

std::int64_t engine_communicators(const EngineSettings& e) {
  return (e.tensor > 1) + (e.pipeline > 1) + (e.data > 1) + (e.expert > 1);
}

void add_engine_process(Job& job, const EngineSettings& e, const std::string& process,
                        const std::string& engine, const std::string& allocator) {
  Process out;
  out.name = process;
  out.engine = engine;
  out.allocator_settings = allocator;
  out.communicators = engine_communicators(e);
  if (e.nodes > 0) {
    out.pool = engine;
    Pool pool;
    pool.name = engine;
    pool.nodes = e.nodes;
    pool.gpus_per_node = e.gpus_per_node;
    job.pools.push_back(std::move(pool));
  }
  job.processes.push_back(std::move(out));
}

void add_processes(Job& job, const Settings& s) {
  Process trainer;
  trainer.name = "trainer";
  for (const Role& role : job.roles) trainer.roles.push_back(role.name);
  trainer.allocator_settings = s.allocator_settings;
  trainer.communicators = trainer_communicators(s);
  if (s.rollout.sync_mode) {
    trainer.engine = "rollout";
    trainer.communicators += engine_communicators(s.rollout);
  }
  job.processes.push_back(std::move(trainer));
  if (!s.rollout.sync_mode) add_engine_process(job, s.rollout, "rollout", "rollout", s.allocator_settings);
  if (s.reward_engine.exists)
    add_engine_process(job, s.reward_engine, "reward_engine", "reward", s.allocator_settings);
  for (const Teacher& teacher : s.teachers)
    add_engine_process(job, teacher.engine, teacher.name, teacher.name, s.allocator_settings);
}

/// Agent loops and reward workers are spread over the nodes; one server an engine replica; the driver.
std::int64_t helpers(const Settings& s) {
  const std::int64_t replica = s.rollout.tensor * s.rollout.data * s.rollout.pipeline;
  const std::int64_t servers = s.rollout.sync_mode ? 0 : ceil_div(s.gpus(), replica);
  const std::int64_t agents = s.rollout.sync_mode ? 0 : s.agent_workers;
  const std::int64_t rewards = s.after(0, 7, 0) ? s.reward_workers : 0;
  return ceil_div(agents + rewards + servers, s.nodes) + 1;
}

}  // namespace

Result<Job> make_job(const Settings& s) {
  if (auto problem = find_problem(s))
    return fail(Error{.message = std::move(problem->message), .file = {}, .key = std::move(problem->key)});
  Job job;
  job.framework = "verl";
  job.algorithm = s.critic.exists ? Algorithm::ppo : Algorithm::grpo;
  job.versions = s.versions;
  job.gpu = s.gpu;
  job.pools.push_back(Pool{.name = "main", .nodes = s.nodes, .gpus_per_node = s.gpus_per_node});
  job.roles = make_roles(s);
  job.engines = make_engines(s);
  add_processes(job, s);
  job.batch.prompts = s.train_batch_size;
  job.batch.generated_prompts = s.gen_batch_size > s.train_batch_size ? s.gen_batch_size : 0;
  job.batch.samples = s.n;
  job.batch.mini_batch = s.actor.mini_batch * s.n;
  job.batch.epochs = s.actor.epochs;
  job.batch.prompt_length = s.prompt_length;
  job.batch.response_length = s.response_length;
  job.start = make_start(s);
  job.step = make_step(s);
  job.steps = s.steps;
  job.resumed = s.resumed;
  job.helpers = helpers(s);
  job.assumptions = s.assumptions;
  job.not_modelled = s.not_modelled;
  HEADROOM_TRY(validate_job(job));
  return job;
}

}  // namespace headroom::verl

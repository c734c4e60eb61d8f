#include "planner/frameworks/engines/facts.h"
#include "planner/frameworks/openrlhf/job.h"

#include <algorithm>

namespace headroom::openrlhf {
namespace {

constexpr std::int64_t kNode = 8;  ///< GPUs of a node that engines are spread over

void add_pool(Job& job, const std::string& name, const Group& group) {
  Pool pool;
  pool.name = name;
  pool.nodes = group.nodes;
  pool.gpus_per_node = group.gpus;
  job.pools.push_back(std::move(pool));
}

std::string pool_of(const Settings& s, const std::string& role) {
  if (s.colocate_all || !s.rl() || role == "actor") return "main";
  if (role == "ref") return s.colocate_actor_ref ? "main" : "ref";
  if (role == "reward") return s.colocate_critic_reward && s.has_critic() ? "critic" : "reward";
  return "critic";
}

/// Every model is a process of its own; the averaged one lives in the actor's.
void add_processes(Job& job, const Settings& s) {
  for (const Role& role : job.roles) {
    const bool shares = role.name == "ema" || (!s.rl() && role.name != "actor");
    if (shares) {
      job.processes.front().roles.push_back(role.name);
      continue;
    }
    Process process;
    process.name = role.name;
    process.roles = {role.name};
    process.pool = pool_of(s, role.name);
    // The world's group and DeepSpeed's copy of it; one more for a ring, and for tensor parallelism.
    const std::int64_t size = group_size(s, role.name);
    process.communicators = size > 1 ? 2 + (s.ring > 1) + (s.tensor > 1) : 0;
    const bool known = std::any_of(job.pools.begin(), job.pools.end(),
                                   [&](const Pool& pool) { return pool.name == process.pool; });
    if (!known)
      add_pool(job, process.pool,
               process.pool == "ref"      ? s.ref
               : process.pool == "critic" ? s.critic
                                          : s.reward);
    job.processes.push_back(std::move(process));
  }
  for (const Engine& engine : job.engines) {
    Process process;
    process.name = "rollout";
    process.engine = engine.name;
    process.communicators = (engine.tensor > 1) + !s.shares_engine();
    if (!s.shares_engine()) {
      process.pool = "rollout";
      const std::int64_t gpus = *s.engines * s.engine_tensor;
      add_pool(
          job, "rollout",
          gpus % kNode == 0 ? Group{.nodes = gpus / kNode, .gpus = kNode} : Group{.nodes = 1, .gpus = gpus});
    }
    job.processes.push_back(std::move(process));
  }
}

}  // namespace

std::int64_t Settings::sequence_length() const {
  return rl() && !since(0, 9, 8) ? prompt_length + response_length : max_length;
}

Result<Job> make_job(const Settings& s) {
  if (auto problem = find_problem(s))
    return fail(Error{.message = std::move(problem->message), .file = {}, .key = std::move(problem->key)});
  Job job;
  job.framework = "openrlhf";
  job.algorithm = s.program == Program::sft   ? Algorithm::sft
                  : s.program == Program::rm  ? Algorithm::reward_model
                  : s.program == Program::dpo ? Algorithm::dpo
                  : s.has_critic()            ? Algorithm::ppo
                                              : Algorithm::grpo;
  job.versions = s.versions;
  job.gpu = s.gpu;
  add_pool(job, "main", s.actor);
  job.roles = make_roles(s);
  job.engines = make_engines(s);
  add_processes(job, s);
  const std::int64_t rows = s.rows_a_sample(), length = s.sequence_length();
  job.batch.prompts = s.rl() ? s.rollout_batch : s.train_batch * rows;
  job.batch.samples = s.rl() ? s.samples : 1;
  job.batch.mini_batch = std::min(s.train_batch * rows, job.batch.sequences());
  job.batch.epochs = s.rl() ? s.epochs : 1;
  job.batch.response_length = !s.rl()            ? 0
                              : s.since(0, 9, 8) ? std::min(s.max_new_tokens.value_or(length - 1), length - 1)
                                                 : s.response_length;
  job.batch.prompt_length = length - job.batch.response_length;
  for (Role& role : job.roles) {
    role.mini_batch = job.batch.mini_batch;
    if (!s.rl()) role.epochs = 1;
  }
  job.start = make_start(s);
  job.step = make_step(s);
  job.steps = s.steps;
  job.resumed = s.resumed;
  job.helpers = s.generates() ? 2 + ceil_div(*s.engines, s.actor.nodes) : 1;
  job.assumptions = s.assumptions;
  job.not_modelled = s.not_modelled;
  HEADROOM_TRY(validate_job(job));
  return job;
}

std::vector<Engine> make_engines(const Settings& s) {
  if (!s.generates()) return {};
  Engine out;
  out.name = "rollout";
  out.kind = EngineKind::vllm;
  out.role = "actor";
  out.model_name = s.pretrain;
  out.model = s.model;
  out.tensor = s.engine_tensor;
  out.utilization = s.utilization;
  out.max_length = s.sequence_length();
  out.graphs = !s.enforce_eager;
  out.processed_logprobs = s.corrects;
  out.sleep_level = s.shares_engine() && s.engine_sleep ? 1 : 0;
  const std::string vllm = s.versions.vllm.empty() ? "0.27.1" : s.versions.vllm;
  engines::set_release(out, vllm, {.through_ray = out.tensor > 1});  // one GPU's engine runs in its own process
  // OpenRLHF leaves sequences and tokens to vLLM: to its class LLM up to 0.9.0, to an AsyncLLM since.
  const engines::Limits limits = engines::default_limits(
      out, settings::card_of(s), s.since(0, 9, 1) ? engines::EntryPoint::bare : engines::EntryPoint::library);
  out.max_sequences = limits.sequences;
  out.max_batched_tokens = limits.batched_tokens;
  out.sync.kind = WeightExport::per_tensor;
  out.sync.dtype = DType::bf16;
  // Parameter by parameter: what is gathered is copied once before it is handed over.
  std::int64_t largest = 0;
  for (const Tensor& tensor : s.model->tensors) largest = std::max(largest, tensor.count());
  out.sync.bucket = s.shares_engine() ? bytes_of(DType::bf16, largest) : 0;
  return {out};
}

}  // namespace headroom::openrlhf

#include "planner/frameworks/trl/job.h"

#include <algorithm>
#include <utility>

#include "planner/frameworks/engines/facts.h"
#include "simulator/job/actions.h"

namespace headroom::trl {
namespace {

Algorithm algorithm_of(Trainer trainer) {
  constexpr Algorithm kOf[] = {Algorithm::grpo, Algorithm::grpo, Algorithm::ppo,
                               Algorithm::dpo,  Algorithm::sft,  Algorithm::reward_model};
  return kOf[static_cast<std::size_t>(trainer)];
}

void add_processes(Job& job, const Settings& s) {
  Process trainer;
  trainer.name = "trainer";
  for (const Role& role : job.roles) trainer.roles.push_back(role.name);
  trainer.allocator_settings = s.machine.allocator_settings;
  // DeepSpeed's copy of the world's group; the engine's own groups.
  if (s.gpus > 1) trainer.communicators = 1 + (s.distributed() == Distributed::deepspeed);
  if (s.colocated()) {
    trainer.engine = "rollout";
    trainer.communicators += s.generation.tensor > 1;
  }
  if (s.server()) ++trainer.communicators;  // rank 0's with the server
  job.processes.push_back(std::move(trainer));
  if (!s.server()) return;
  Pool pool;
  pool.name = "rollout";
  pool.gpus_per_node = s.generation.server_tensor * s.generation.server_data;
  job.pools.push_back(pool);
  Process server;
  server.name = "rollout";
  server.pool = "rollout";
  server.engine = "rollout";
  server.communicators = (s.generation.server_tensor > 1) + 1;
  job.processes.push_back(std::move(server));
}

void set_batch(Job& job, const Settings& s) {
  Batch& b = job.batch;
  b.prompt_length = s.prompt;
  b.response_length = s.trainer == Trainer::sft || s.trainer == Trainer::reward ? 0 : s.response;
  const std::int64_t rows = s.one_row() ? 1 : s.rows();
  if (s.online()) {
    b.samples = s.num_generations;
    b.prompts = rows * s.steps_per_generation * s.gpus / s.num_generations;
    b.mini_batch = b.sequences();
    return;
  }
  b.prompts = rows * s.accum * s.gpus;
  b.mini_batch = s.trainer == Trainer::ppo ? b.prompts / s.mini_batches : b.prompts;
  if (s.trainer == Trainer::ppo) b.epochs = s.epochs;
}

void add_save(Job& job, const Settings& s) {
  if (s.save_strategy == "no" || s.save_steps <= 0) return;
  PhaseSpec save = make_phase(PhaseKind::save_checkpoint, {role_action(Verb::save, "actor")});
  if (s.distributed() == Distributed::fsdp && s.launcher.state_dict == "FULL_STATE_DICT") {
    save.actions.back().gathered = true;
    save.actions.back().parts = kOptimizer;
  }
  save.when.every = std::max<std::int64_t>(1, static_cast<std::int64_t>(s.save_steps));
  job.step.push_back(std::move(save));
}

}  // namespace

std::vector<Engine> make_engines(const Settings& s) {
  if (!s.generates()) return {};
  if (!s.generation.use_vllm) return {cases::generation_by(s.trainer == Trainer::ppo ? s.model : s.model)};
  const Generation& g = s.generation;
  Engine out;
  out.name = "rollout";
  out.kind = EngineKind::vllm;
  out.role = "actor";
  out.model_name = s.model_name;
  out.model = s.model;
  out.tensor = s.server() ? g.server_tensor : g.tensor;
  out.utilization = s.server() && s.since(0, 18) ? g.server_utilization : g.utilization;
  out.max_length = g.max_length.value_or(0);
  if (out.max_length == 0 && s.colocated() && !s.since(0, 26) && s.max_prompt)
    out.max_length = *s.max_prompt + s.response;
  if (s.colocated()) {
    // Of a whole generation; batched tokens as the trainer states them.
    out.max_sequences = s.rows() * g.tensor * s.steps_per_generation;
    out.max_batched_tokens = 4096;
  } else {
    constexpr Bytes kLargeCard = 70 * kGiB;
    out.max_batched_tokens = s.card == 0 || s.card >= kLargeCard ? 8192 : 2048;
    out.max_sequences = 256;
  }
  out.graphs = !(s.server() && g.enforce_eager);
  out.processed_logprobs = s.since(0, 23);
  out.sleep_level = !s.sleeps() ? 0 : s.since(0, 25) ? 2 : 1;
  engines::set_release(out, s.versions.vllm.empty() ? "0.20.0" : s.versions.vllm);
  out.sync.dtype = DType::bf16;
  // Adapters are merged into gathered weights; ZeRO 3 gathers all of them at once for it.
  out.sync.kind = s.lora > 0 && s.zero3() ? WeightExport::full_parameters : WeightExport::per_tensor;
  return {out};
}

bool sharded(const Settings& s) {
  return s.distributed() != Distributed::none && s.distributed() != Distributed::data_parallel;
}

/// The reference's log-probs of all data: while the trainer is made (since 0.29), else as training begins, which starts
/// with an empty cache.
void precompute(const Settings& s, PhaseSpec& init, std::vector<PhaseSpec>& out) {
  PhaseSpec pass =
      make_phase(PhaseKind::ref_logprob, {role_action(Verb::forward, "actor")}, "precompute_ref_logprob");
  if (!s.since(0, 29)) {
    out.push_back(std::exchange(init, make_phase(PhaseKind::init, {}, "prepare")));
  } else {
    PhaseSpec made = std::exchange(init, make_phase(PhaseKind::init));
    pass.actions.insert(pass.actions.begin(), made.actions.begin(), made.actions.end());
    pass.within = "init";
  }
  out.push_back(std::move(pass));
  init.actions.push_back(role_action(Verb::empty_cache, "actor"));
}

std::vector<PhaseSpec> make_start(const Settings& s) {
  std::vector<PhaseSpec> out;
  // The engine starts in the trainer's constructor: the policy is loaded, nothing is wrapped yet.
  const auto build = [&](PhaseSpec& phase, const char* role) {
    phase.actions.push_back(role_action(Verb::build, role));
  };
  PhaseSpec init = make_phase(PhaseKind::init);
  build(init, "actor");
  if (s.colocated() || s.server()) {
    out.push_back(std::move(init));
    PhaseSpec start = make_phase(PhaseKind::engine_init, {engine_action(Verb::start_engine, "rollout")});
    if (s.sleeps()) start.actions.push_back(engine_action(Verb::sleep, "rollout"));
    out.push_back(std::move(start));
    init = make_phase(PhaseKind::init, {}, "prepare");
  }
  if (s.trainer == Trainer::ppo) build(init, "critic");
  if (s.has_reference() && !s.precompute && s.lora == 0) build(init, "ref");
  if (s.trainer == Trainer::ppo || (s.online() && s.reward_model != nullptr)) build(init, "reward");
  // Nothing is prepared yet; an engine or shards, which the pass needs too, are made with the optimizer here.
  if (s.precomputes() && !sharded(s)) precompute(s, init, out);
  init.actions.push_back(role_action(Verb::build_optimizer, "actor"));
  if (s.trainer == Trainer::ppo) init.actions.push_back(role_action(Verb::build_optimizer, "critic"));
  if (s.precomputes() && sharded(s)) precompute(s, init, out);
  out.push_back(std::move(init));
  if (!s.resumed) return out;
  PhaseSpec load = make_phase(PhaseKind::load, {role_action(Verb::create_states, "actor")});
  if (s.trainer == Trainer::ppo) load.actions.push_back(role_action(Verb::create_states, "critic"));
  out.push_back(std::move(load));
  return out;
}

Job assemble(const Settings& s) {
  Job job = cases::frame(s.name, "trl", s.machine);
  if (!s.gpu.empty()) job.gpu = s.gpu;
  job.algorithm = algorithm_of(s.trainer);
  job.versions = s.versions;
  Pool& pool = job.pools.front();
  pool.nodes = std::max<std::int64_t>(1, std::min(s.launcher.machines, s.gpus));
  pool.gpus_per_node = std::max<std::int64_t>(1, s.gpus / pool.nodes);
  job.roles = make_roles(s);
  job.engines = make_engines(s);
  add_processes(job, s);
  set_batch(job, s);
  job.start = make_start(s);
  if (s.online())
    job.step = s.recorded ? make_training_steps(s) : make_cycle(s);
  else
    job.step = s.trainer == Trainer::ppo ? make_update(s) : make_supervised_step(s);
  add_save(job, s);
  job.steps = s.steps;
  if (s.recorded && s.online()) job.steps *= static_cast<int>(s.accum);
  job.resumed = s.resumed;
  job.helpers = 1;
  job.assumptions = s.assumptions;
  job.not_modelled = s.not_modelled;
  return job;
}

Result<Job> make_job(const Settings& given) {
  Settings s = given;
  derive(s);
  if (auto problem = find_problem(s))
    return fail(Error{.message = std::move(problem->message), .file = {}, .key = std::move(problem->key)});
  Job job = assemble(s);
  HEADROOM_TRY(validate_job(job));
  return job;
}

}  // namespace headroom::trl

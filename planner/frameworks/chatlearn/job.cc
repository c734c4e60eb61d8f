#include "planner/frameworks/engines/facts.h"
#include "planner/frameworks/chatlearn/job.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom::chatlearn {
namespace {

/// Elements that FSDP's trainer gathers before it hands them to the engine; Megatron's buckets.
constexpr std::int64_t kGroup = 3'000'000'000;
constexpr Bytes kShardBucket = 4 * kGiB;
constexpr std::int64_t kEntropyRows = 512;

Role base(const Settings& s, const Model& m, const std::string& name, bool trained) {
  Role role;
  role.name = name;
  role.model_name = m.load;
  role.model = m.architecture;
  role.trained = trained;
  role.packed = m.packing || s.megatron;
  MicroBatch batch;
  if (m.packing)
    batch.tokens =
        std::max<std::int64_t>(m.packed_tokens / std::max<std::int64_t>(1, m.ulysses * m.context), 1);
  else
    batch.sequences = s.micro_batch;
  role.train = batch;
  // Passes without gradients of Megatron's trainer are as large as those of the update.
  if (!m.packing && !s.megatron) batch.sequences = m.generation_batch;
  role.forward = batch;
  role.mini_batch = s.global_batch;
  role.epochs = s.epochs;
  role.optimizer.clip = m.clip_grad > 0;
  return role;
}

void set_fsdp(const Settings& s, Role& role, const Model& m) {
  (void)s;
  role.precision.weights = role.precision.gradients = role.precision.reduce = DType::fp32;
  role.precision.compute = DType::bf16;
  role.sharding.kind = ShardingKind::fsdp2;
  role.parallel.ulysses = m.ulysses;
  role.attention = role.packed ? AttentionImplementation::flash_varlen : AttentionImplementation::flash;
  role.attention_mask = !role.packed;
  role.built_on_host = true;
  role.loads_on_every_rank = !m.meta_init;
  if (m.meta_init) role.sharding.meta = MetaRanks::others;
  role.offload_pinned = false;
  role.loss.token_logprob = TokenLogprob::log_softmax;
  role.loss.keeps_logits = role.trained;
  if (!role.trained) return;
  role.recompute.kind = RecomputeKind::full;
  role.loss.train_entropy = m.entropy_coefficient > 0 ? Entropy::backward : Entropy::forward;
  role.loss.entropy_chunk = kEntropyRows;
}

void set_megatron(const Settings& s, Role& role, const Model& m) {
  (void)s;
  Parallel& p = role.parallel;
  p.tensor = m.tensor;
  p.pipeline = m.pipeline;
  p.virtual_pipeline = m.virtual_pipeline;
  p.context = m.context;
  p.expert = m.expert;
  p.expert_tensor = m.expert_tensor;
  p.sequence = m.sequence_parallel && m.tensor > 1;
  p.first_stage_layers = m.first_stage_layers.value_or(0);
  p.last_stage_layers = m.last_stage_layers.value_or(0);
  role.sharding.kind = ShardingKind::megatron;
  role.sharding.distributed_optimizer = m.distributed;
  role.attention = AttentionImplementation::transformer_engine;
  role.megatron.gradient_accumulation_fusion = m.accumulation_fusion;
  role.megatron.deallocates_outputs = m.deallocates;
  role.loss.logits_fp32 = true;
  if (!role.trained) return;
  role.precision.master = DType::fp32;
  role.precision.gradients = role.precision.reduce = DType::fp32;
  role.loss.train_entropy = Entropy::forward;
  if (m.granularity == "full") {
    role.recompute.kind = RecomputeKind::full;
    if (m.method == "block")
      role.recompute.layers = m.recompute_layers.value_or(0);
    else
      role.recompute.every = std::max<std::int64_t>(1, m.recompute_layers.value_or(1));
  } else if (m.granularity == "selective") {
    role.recompute.kind = RecomputeKind::selective;
    role.recompute.modules = m.recompute_modules;
  }
}

Role make_role(const Settings& s, const Model& m, const std::string& name, bool trained) {
  Role role = base(s, m, name, trained);
  s.megatron ? set_megatron(s, role, m) : set_fsdp(s, role, m);
  return role;
}

Engine make_engine(const Settings& s) {
  const Model& m = s.policy;
  Engine out;
  out.name = "rollout";
  out.kind = s.rollout_backend == "sglang" ? EngineKind::sglang : EngineKind::vllm;
  out.role = "actor";
  out.model_name = m.load;
  out.model = m.architecture;
  out.tensor = m.engine_tensor;
  out.utilization = m.utilization;
  // SGLang takes no limit of sequences from it.
  if (out.kind == EngineKind::vllm) out.max_sequences = m.generation_batch;
  out.max_batched_tokens = m.batched_tokens;
  out.graphs = !m.enforce_eager;
  out.sleep_level = m.free.weights ? 1 : 0;
  const std::string vllm = s.versions.vllm.empty() ? "0.10.0" : s.versions.vllm;
  engines::set_release(out, out.kind == EngineKind::sglang ? s.versions.sglang : vllm);
  const std::int64_t all = m.architecture->parameters();
  if (s.megatron) {
    out.sync.bucket = kShardBucket;
    out.sync.dtype = DType::bf16;
  } else {
    // Groups are gathered in fp32 and stay until the engine has copied them; SGLang's once more, joined.
    const Bytes group = bytes_of(DType::fp32, std::min(all, kGroup));
    out.sync.bucket = s.rollout_backend == "sglang" ? 2 * group : group;
    out.sync.dtype = DType::fp32;
  }
  return out;
}

Pool pool_of(const Settings& s, const std::string& name, std::int64_t gpus) {
  Pool pool;
  pool.name = name;
  const bool whole = gpus % s.gpus_per_node == 0;
  pool.nodes = whole ? gpus / s.gpus_per_node : 1;
  pool.gpus_per_node = whole ? s.gpus_per_node : gpus;
  return pool;
}

std::int64_t communicators(const Settings& s, const Model& m) {
  if (m.gpus <= 1) return 0;
  if (!s.megatron) return 1 + (m.ulysses > 1);
  const std::int64_t data = m.gpus / (m.tensor * m.pipeline * m.context);
  return 1 + (m.tensor > 1) + 2 * (m.pipeline > 1) + (m.context > 1) + (data > 1) + 2 * (m.expert > 1);
}

/// Every model is a process of its own.
void add_process(Job& job, const Settings& s, const std::string& name, const Model& m, const std::string& key,
                 bool engine) {
  Process process;
  process.name = name;
  if (engine) {
    process.engine = "rollout";
    process.communicators = m.engine_tensor > 1;
  } else {
    process.roles = {name};
    process.communicators = communicators(s, m);
    if (m.expandable) process.allocator_settings = "expandable_segments:True";
  }
  if (name != "actor" && !s.colocated(key)) {
    process.pool = name;
    job.pools.push_back(pool_of(s, name, m.gpus));
  }
  job.processes.push_back(std::move(process));
}

}  // namespace

std::optional<Problem> find_problem(const Settings& s) {
  const auto problem = [](std::string key, std::string message) {
    return std::optional<Problem>(Problem{.key = std::move(key), .message = std::move(message)});
  };
  const std::pair<const Model*, const char*> models[] = {{&s.trainer, "models.policy_trainer."},
                                                         {&s.reference, "models.ref_policy."},
                                                         {&s.policy, "models.policy."}};
  for (const auto& [model, at] : models)
    if (model->gpus < 1)
      return problem(std::string(at) + "num_gpu", fmt::format("expected at least 1, found {}", model->gpus));
  const Model& t = s.trainer;
  const std::int64_t shared = s.megatron ? t.tensor * t.pipeline * t.context : t.ulysses;
  if (t.gpus % shared != 0)
    return problem(std::string("models.policy_trainer.") +
                       (s.megatron ? "tensor_model_parallel_size" : "ulysses_sequence_parallel_size"),
                   fmt::format("expected sizes that divide the {} GPUs, found {}", t.gpus, shared));
  const std::int64_t data = t.gpus / shared;
  if (s.samples_an_episode % s.global_batch != 0)
    return problem("runtime_args.train_global_batch_size",
                   fmt::format("expected a divisor of sample_per_episode ({}), found {}",
                               s.samples_an_episode, s.global_batch));
  if (s.samples_an_episode % s.answers != 0)
    return problem("runtime_args.num_inference_per_prompt",
                   fmt::format("expected a divisor of sample_per_episode ({}), found {}",
                               s.samples_an_episode, s.answers));
  if (s.global_batch % data != 0)
    return problem(
        "runtime_args.train_global_batch_size",
        fmt::format("expected a multiple of the {} data-parallel ranks, found {}", data, s.global_batch));
  if (!t.packing && s.global_batch / data % s.micro_batch != 0)
    return problem("runtime_args.train_micro_batch_size",
                   fmt::format("expected a divisor of a rank's {} sequences, found {}", s.global_batch / data,
                               s.micro_batch));
  if (s.policy.gpus % s.policy.engine_tensor != 0)
    return problem(
        "models.policy.tensor_model_parallel_size",
        fmt::format("expected a divisor of the {} GPUs, found {}", s.policy.gpus, s.policy.engine_tensor));
  if (!(s.policy.utilization > 0 && s.policy.utilization <= 1))
    return problem("models.policy.gpu_memory_utilization",
                   fmt::format("expected a fraction above 0 and at most 1, found {}", s.policy.utilization));
  return {};
}

Result<Job> make_job(const Settings& s) {
  if (auto problem = find_problem(s))
    return fail(Error{.message = std::move(problem->message), .file = {}, .key = std::move(problem->key)});
  Job job;
  job.framework = "chatlearn";
  job.algorithm = Algorithm::grpo;
  job.versions = s.versions;
  job.gpu = s.gpu;
  job.pools.push_back(pool_of(s, "main", s.trainer.gpus));
  job.roles.push_back(make_role(s, s.trainer, "actor", true));
  job.roles.push_back(make_role(s, s.reference, "ref", false));
  job.engines.push_back(make_engine(s));
  add_process(job, s, "actor", s.trainer, "policy_trainer", false);
  add_process(job, s, "ref", s.reference, "ref_policy", false);
  add_process(job, s, "rollout", s.policy, "policy", true);
  job.batch.prompts = s.samples_an_episode / s.answers;
  job.batch.samples = s.answers;
  job.batch.mini_batch = s.global_batch;
  job.batch.epochs = s.epochs;
  job.batch.prompt_length = s.policy.prompt_length;
  job.batch.response_length = s.policy.response_length;
  job.start = make_start(s);
  job.step = make_step(s);
  job.steps = s.steps;
  job.resumed = s.resumed;
  job.helpers = 4;  // reward, managers, the driver
  job.assumptions = s.assumptions;
  job.not_modelled = s.not_modelled;
  HEADROOM_TRY(validate_job(job));
  return job;
}

}  // namespace headroom::chatlearn

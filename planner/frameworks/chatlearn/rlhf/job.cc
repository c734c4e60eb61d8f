#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "planner/frameworks/chatlearn/rlhf/settings.h"
#include "planner/frameworks/engines/facts.h"

namespace headroom::chatlearn::rlhf {
namespace {

auto refuse(std::string key, std::string message) {
  return fail(Error{.message = std::move(message), .file = {}, .key = std::move(key)});
}

/// What ChatLearn asserts, in its own keys.
Status check(const Settings& s) {
  if (s.global() % s.micro_batch != 0)
    return refuse("runtime.train_global_batch_size",
                  fmt::format("expected a multiple of train_micro_batch_size ({}), found {}", s.micro_batch, s.global()));
  std::set<std::string> grouped;
  for (const std::string& group : s.colocation)
    for (std::size_t begin = 0; begin <= group.size();) {
      const std::size_t end = std::min(group.find(',', begin), group.size());
      const std::string name = group.substr(begin, end - begin);
      begin = end + 1;
      if (std::find(kModels.begin(), kModels.end(), name) == kModels.end())
        return refuse("runtime.colocation", fmt::format("expected names of models, found {}", name));
      if (!grouped.insert(name).second)
        return refuse("runtime.colocation", fmt::format("expected {} in one group at most", name));
    }
  for (const Model& m : s.models) {
    if (!m.exists) continue;
    const std::string at = "models." + m.name + ".";
    const std::int64_t shared = m.tensor * m.pipeline;
    if (m.gpus < 1) return refuse(at + "num_gpu", fmt::format("expected at least 1, found {}", m.gpus));
    if (m.gpus % shared != 0)
      return refuse(at + "num_gpu", fmt::format("expected a multiple of TP x PP ({}), found {}", shared, m.gpus));
    const std::int64_t data = m.gpus / shared;
    if (m.trained && s.global() % (s.micro_batch * data) != 0)
      return refuse("runtime.train_global_batch_size",
                    fmt::format("expected a multiple of {} x {} data-parallel ranks of {}, found {}", s.micro_batch, data,
                                m.name, s.global()));
    if (!m.trained && s.generation_of(m) > 0 && data * s.generation_of(m) > s.samples_an_episode)
      return refuse(at + "generation_batch_size",
                    fmt::format("expected {} replicas' batches within the episode's {} samples, found {}", data,
                                s.samples_an_episode, s.generation_of(m)));
  }
  return {};
}

constexpr const char* role_of(std::size_t model) {
  constexpr const char* kRoles[] = {"rollout", "ref", "value", "reward", "actor", "critic"};
  return kRoles[model];
}

Role make_role(const Settings& s, std::size_t index) {
  const Model& m = s.models[index];
  Role role;
  role.name = role_of(index);
  role.model = m.architecture;
  role.model_name = m.name;
  role.trained = m.trained;
  const bool language = index == kReference || index == kPpoPolicy;
  role.head = language ? HeadKind::language_model : HeadKind::scalar;
  role.packed = true;
  role.sharding.kind = ShardingKind::megatron;
  role.sharding.distributed_optimizer = m.distributed;
  role.parallel.tensor = m.tensor;
  role.parallel.pipeline = m.pipeline;
  role.parallel.sequence = m.sequence_parallel && m.tensor > 1 && m.trained;
  role.attention = AttentionImplementation::flash_varlen;
  role.megatron.layers = MegatronLayers::local;
  role.megatron.vocabulary_multiple = m.vocabulary_multiple;
  role.megatron.vocabulary_multiple_a_rank = true;
  // Page-locked by registration: exact sizes; Adam's states by PyTorch's allocator.
  role.offload_pinned = false;
  role.train.sequences = s.micro_batch;
  role.forward.sequences = m.trained ? s.micro_batch : std::max<std::int64_t>(1, s.generation_of(m));
  role.mini_batch = s.global();
  role.epochs = s.epochs;
  role.loss.logits_fp32 = true;
  if (!m.trained) return role;
  role.precision.master = DType::fp32;
  role.precision.gradients = role.precision.reduce = DType::fp32;
  if (m.granularity == "full") {
    role.recompute.kind = RecomputeKind::full;
    if (m.method == "block")
      role.recompute.layers = m.recompute_layers.value_or(0);
    else
      role.recompute.every = std::max<std::int64_t>(1, m.recompute_layers.value_or(1));
  } else if (m.granularity == "selective" || m.recompute_activations) {
    role.recompute.kind = RecomputeKind::selective;
    role.recompute.modules = {"core_attn"};
  }
  if (m.adapters) {
    LoraSpec lora;
    lora.rank = m.adapter_rank;
    lora.targets = {"all-linear"};
    lora.dtype = DType::bf16;
    role.lora = lora;
  }
  return role;
}

/// Megatron's static cache of a batch at full length, of this rank's layers and heads.
Bytes static_cache(const Settings& s, const Model& m) {
  Bytes out = 0;
  for (const LayerGroup& group : m.architecture->decoder.groups) {
    const Attention& a = group.layer.attention;
    const std::int64_t heads = std::max<std::int64_t>(1, (a.kv_heads > 0 ? a.kv_heads : a.heads) / m.tensor);
    out += bytes_of(DType::bf16, 2 * group.count * s.generation_of(m) * m.sequence_length * heads * a.head_dim);
  }
  return out / m.pipeline;
}

Engine make_engine(const Settings& s) {
  const Model& m = s.model(kPolicy);
  Engine out;
  out.name = "rollout";
  out.kind = EngineKind::vllm;
  out.role = "actor";
  out.model = m.architecture;
  out.model_name = m.name;
  out.tensor = m.tensor;
  out.pipeline = m.pipeline;
  out.graphs = false;
  out.sleep_level = 1;
  // The cache goes after each generation; EMS moves the weights.
  out.sleep_keeps_weights = !(s.moves(m) && m.offloads_weights());
  out.max_sequences = std::max<std::int64_t>(1, s.generation_of(m));
  out.max_length = m.sequence_length;
  out.sync.kind = WeightExport::per_tensor;
  out.sync.bucket = s.buffer_mb * kMiB;
  out.sync.dtype = DType::bf16;
  if (m.utilization > 0) {
    out.utilization = m.utilization;
    out.max_batched_tokens = m.batched_tokens;
    out.host_swap = m.swap_gib * kGiB;
    engines::set_release(out, s.versions.vllm);
    out.graphs = false;
  } else {
    out.kv_bytes = static_cache(s, m);
    out.max_batched_tokens = std::max<std::int64_t>(1, s.generation_of(m) * (m.sequence_length - m.new_tokens));
  }
  return out;
}

std::int64_t communicators(const Model& m) {
  if (m.gpus <= 1) return 0;
  return 1 + (m.tensor > 1) + 2 * (m.pipeline > 1) + (m.gpus > m.tensor * m.pipeline);
}

}  // namespace

Result<Job> make_job(const Settings& s) {
  HEADROOM_TRY(check(s));
  Job job;
  job.framework = "chatlearn";
  job.algorithm = Algorithm::ppo;
  job.versions = s.versions;
  job.gpu = s.gpu;
  // The trainer's GPUs come first; those that share them are in their pool.
  std::map<std::string, std::string> pools;
  const auto pool_of = [&](const Model& m) {
    const std::string group = s.group_of(m.name);
    const std::string key = group.empty() ? m.name : group;
    if (const auto known = pools.find(key); known != pools.end()) return known->second;
    std::int64_t gpus = m.gpus;
    for (const Model& other : s.models)
      if (other.exists && !group.empty() && s.group_of(other.name) == group) gpus = std::max(gpus, other.gpus);
    Pool pool;
    pool.name = pools.empty() ? "main" : m.name;
    const bool whole = gpus % s.gpus_per_node == 0;
    pool.nodes = whole ? gpus / s.gpus_per_node : 1;
    pool.gpus_per_node = whole ? s.gpus_per_node : gpus;
    job.pools.push_back(pool);
    return pools[key] = pool.name;
  };
  for (const std::size_t i : {kPpoPolicy, kPpoValue, kReference, kValue, kReward, kPolicy}) {
    const Model& m = s.models[i];
    if (!m.exists) continue;
    Process process;
    process.name = role_of(i);
    process.pool = pool_of(m);
    process.communicators = communicators(m);
    if (i == kPolicy) {
      job.engines.push_back(make_engine(s));
      process.engine = "rollout";
    } else {
      job.roles.push_back(make_role(s, i));
      process.roles = {role_of(i)};
    }
    job.processes.push_back(std::move(process));
  }
  const Model& trainer = s.model(kPpoPolicy);
  job.batch.prompts = s.samples_an_episode;
  job.batch.mini_batch = std::min(s.global(), s.samples_an_episode);
  job.batch.epochs = s.epochs;
  job.batch.response_length = std::min(trainer.new_tokens, trainer.sequence_length - 1);
  job.batch.prompt_length = trainer.sequence_length - job.batch.response_length;
  job.start = make_start(s);
  job.step = make_step(s);
  job.steps = s.steps;
  job.resumed = s.resumed;
  job.helpers = 2;
  job.assumptions = s.assumptions;
  job.not_modelled = s.not_modelled;
  HEADROOM_TRY(validate_job(job));
  return job;
}

}  // namespace headroom::chatlearn::rlhf

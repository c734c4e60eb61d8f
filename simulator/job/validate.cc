#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "simulator/allocator/simulated_settings.h"
#include "simulator/job/batching.h"
#include "simulator/job/calls.h"
#include "simulator/job/job.h"
#include "simulator/job/loop_kind.h"
#include "simulator/job/names.h"
#include "simulator/job/residency.h"
#include "simulator/job/standard_step.h"

namespace headroom {
namespace {

/// No cluster is larger, and what is listed by GPU stays small.
constexpr std::int64_t kMostGpus = 100'000;

/// Largest count that may stand in a job: products of two of them still fit 63 bits.
constexpr std::int64_t kMost = std::int64_t{1} << 31;

/// Most micro-batches of a role in a step whose every micro-batch is run: some seconds of simulation.
constexpr std::int64_t kMostMicroBatches = 1 << 14;

auto bad(std::string key, std::string message) {
  return fail(Error{.message = std::move(message), .file = {}, .key = std::move(key)});
}

Status count(const std::string& key, std::int64_t value, std::int64_t least) {
  if (value < least || value > kMost)
    return bad(key, fmt::format("expected a number from {} to {}, found {}", least, kMost, value));
  return {};
}

template <typename T>
Status unique_names(const std::vector<T>& items, const std::string& list) {
  std::set<std::string> seen;
  for (const T& item : items) {
    if (item.name.empty()) return bad(list, "expected a name for every entry, found an empty one");
    if (!seen.insert(item.name).second) return bad(list + "." + item.name, "the name is used twice");
  }
  return {};
}

Status check_batch(const Job& job) {
  const Batch& batch = job.batch;
  HEADROOM_TRY(count("batch.prompts", batch.prompts, 1));
  HEADROOM_TRY(count("batch.samples", batch.samples, 1));
  HEADROOM_TRY(count("batch.generated_prompts", batch.generated_prompts, 0));
  HEADROOM_TRY(count("batch.mini_batch", batch.mini_batch, 0));
  HEADROOM_TRY(count("batch.epochs", batch.epochs, 1));
  HEADROOM_TRY(count("batch.prompt_length", batch.prompt_length, 0));
  HEADROOM_TRY(count("batch.response_length", batch.response_length, 0));
  HEADROOM_TRY(count("batch", batch.sequences(), 1));
  HEADROOM_TRY(count("batch", batch.sequence_length(), 1));
  if (batch.mini_batch > batch.sequences())
    return bad("batch.mini_batch", fmt::format("expected at most the step's {} sequences, found {}",
                                               batch.sequences(), batch.mini_batch));
  return {};
}

/// Every layer's heads must be divisible by `ranks`; key/value heads divisible by it or divide it (then they
/// are replicated).
Status check_heads(const Architecture& model, std::int64_t ranks, const std::string& key) {
  for (const LayerGroup& group : model.decoder.groups) {
    const Attention& attention = group.layer.attention;
    if (attention.heads > 0 && attention.heads % ranks != 0)
      return bad(key, fmt::format("expected a divisor of the model's {} attention heads, found {}",
                                  attention.heads, ranks));
    if (attention.kv_heads > 0 && attention.kv_heads % ranks != 0 && ranks % attention.kv_heads != 0)
      return bad(key,
                 fmt::format("expected a divisor or a multiple of the model's {} key/value heads, found {}",
                             attention.kv_heads, ranks));
  }
  return {};
}

/// What no call of a held kernel would take (sdp_utils.cpp: can_use_*_attention); masks are not looked at.
Status check_attention_kernel(const Role& role) {
  constexpr std::int64_t kWidest = 256, kAlignment = 8;
  const AttentionKernel kernel = role.attention_kernel;
  if (kernel == AttentionKernel::by_gpu || kernel == AttentionKernel::math ||
      role.attention != AttentionImplementation::sdpa)
    return {};
  const bool efficient = kernel == AttentionKernel::efficient;
  const auto refused = [&](const std::string& why) {
    return bad("sdpa_kernel",
               fmt::format("expected a kernel that takes {} of role {}, found {}: PyTorch has no "
                           "available kernel; leave the key out or name another",
                           why, role.name, enum_name(kernel)));
  };
  if (!efficient && role.precision.compute == DType::fp32) return refused("the fp32 attention");
  for (const LayerGroup& group : role.model->decoder.groups) {
    const Attention& a = group.layer.attention;
    // Behind a mask Transformers repeats keys and values first.
    if (efficient && !role.attention_mask && a.kv_heads > 0 && a.kv_heads != a.heads)
      return refused(fmt::format("the {} heads with {} key/value heads", a.heads, a.kv_heads));
    if (!efficient && a.head_dim > kWidest)
      return refused(fmt::format("the heads of {} numbers", a.head_dim));
    if (kernel == AttentionKernel::cudnn && a.head_dim % kAlignment != 0)
      return refused(fmt::format("the heads of {} numbers, no multiple of {},", a.head_dim, kAlignment));
  }
  return {};
}

/// Which loop runs on which store, and with which engines.
Status check_loop(const Job& job, const Role& role) {
  const std::string at = "roles." + role.name;
  const ShardingKind kind = role.sharding.kind;
  const bool megatron = kind == ShardingKind::megatron;
  if (megatron && role.model->decoder.token_rows > 0)
    return bad(at + ".model", "expected a model of layers that Megatron-Core has, found embeddings for each layer (" +
                                  role.model->family + ")");
  if (role.loop != nullptr && megatron)
    return bad(at + ".sharding.kind",
               fmt::format("expected any sharding but megatron: trainer {} passes rectangles, found {}",
                           role.loop->name, enum_name(kind)));
  for (const Engine& engine : job.engines)
    if (megatron && engine.role == role.name && inside_trainer(engine))
      return bad(
          "engines." + engine.name + ".kind",
          fmt::format("expected vllm or sglang: role {} under Megatron does not generate itself, found {}",
                      role.name, enum_name(engine.kind)));
  if (role.loop == nullptr) return {};
  if (role.packed)
    return bad(at + ".packed", fmt::format("expected false: trainer {} passes rectangles", role.loop->name));
  for (const Engine& engine : job.engines)
    if (!inside_trainer(engine) && !role.loop->takes_sequences)
      return bad("engines." + engine.name + ".kind",
                 fmt::format("expected transformers: trainer {} of role {} generates with its own model, "
                             "found {}",
                             role.loop->name, role.name, enum_name(engine.kind)));
  return {};
}

/// Under FSDP2 whole experts are dealt out over some of the `ranks` that share everything else.
Status check_dealt_experts(const Role& role, std::int64_t ranks, const std::string& at) {
  const std::int64_t expert = role.parallel.expert;
  if (role.sharding.kind != ShardingKind::fsdp2 || expert == 1) return {};
  if (ranks % expert != 0)
    return bad(at + ".parallel.expert", fmt::format("expected a divisor of {} ranks, found {}", ranks, expert));
  for (const LayerGroup& group : role.model->decoder.groups)
    if (group.layer.mlp.kind == MlpKind::experts && group.layer.mlp.experts % expert != 0)
      return bad(at + ".parallel.expert", fmt::format("expected a divisor of the {} routed experts, found {}",
                                                      group.layer.mlp.experts, expert));
  return {};
}

/// Weights in four bits are frozen ones under adapters, of a model that no runtime shards.
Status check_frozen(const Role& role) {
  if (!role.precision.frozen) return {};
  const std::string at = "roles." + role.name + ".precision.frozen";
  if (*role.precision.frozen != DType::nf4)
    return bad(at, fmt::format("expected nf4, found {}", name(*role.precision.frozen)));
  if (!role.lora && role.trained) return bad(at, "expected adapters (lora) beside weights in four bits, found none");
  const ShardingKind kind = role.sharding.kind;
  if (kind != ShardingKind::none && kind != ShardingKind::data_parallel)
    return bad(at, fmt::format("expected sharding none or data_parallel beside weights in four bits, found {}",
                               enum_name(kind)));
  return {};
}

Status check_role(const Job& job, const Role& role) {
  const std::string at = "roles." + role.name;
  const Parallel& parallel = role.parallel;
  if (role.model == nullptr) return bad(at + ".model", "expected a model, found none");
  HEADROOM_TRY(check_attention_kernel(role));
  HEADROOM_TRY(check_loop(job, role));
  HEADROOM_TRY(check_frozen(role));
  const Decoder& decoder = role.model->decoder;
  if (decoder.position == PositionKind::learned && job.batch.sequence_length() > decoder.max_positions)
    return bad("batch",
               fmt::format("expected prompt and response within the {} positions of {}, found {} + {}",
                           decoder.max_positions, at, job.batch.prompt_length, job.batch.response_length));
  const std::pair<const char*, std::int64_t> sizes[] = {{"tensor", parallel.tensor},
                                                        {"pipeline", parallel.pipeline},
                                                        {"virtual_pipeline", parallel.virtual_pipeline},
                                                        {"context", parallel.context},
                                                        {"expert", parallel.expert},
                                                        {"ulysses", parallel.ulysses}};
  for (const auto& [what, size] : sizes) HEADROOM_TRY(count(at + ".parallel." + what, size, 1));
  HEADROOM_TRY(check_heads(*role.model, parallel.tensor, at + ".parallel.tensor"));
  HEADROOM_TRY(check_heads(*role.model, parallel.ulysses, at + ".parallel.ulysses"));
  if (parallel.pipeline > role.model->decoder.layers)
    return bad(at + ".parallel.pipeline", fmt::format("expected at most the model's {} layers, found {}",
                                                      role.model->decoder.layers, parallel.pipeline));
  const Process* process = job.process_of(role.name);
  const Pool* pool = process != nullptr ? job.pool(process->pool) : &job.pools.front();
  if (pool == nullptr)
    return bad("processes." + process->name + ".pool", fmt::format("no pool is named {}", process->pool));
  const std::int64_t together = parallel.model() * parallel.ulysses;
  if (together > pool->gpus() || pool->gpus() % together != 0)
    return bad(at + ".parallel", fmt::format("expected a product of sizes that divides the {} GPUs, found {}",
                                             pool->gpus(), together));
  HEADROOM_TRY(check_dealt_experts(role, pool->gpus() / parallel.model(), at));
  HEADROOM_TRY(count(at + ".sharding.group", role.sharding.group, 0));
  const std::int64_t ranks = pool->gpus() / parallel.model();
  if (role.sharding.group > 0 && ranks % role.sharding.group != 0)
    return bad(at + ".sharding.group",
               fmt::format("expected a divisor of {} ranks, found {}", ranks, role.sharding.group));
  for (const auto& [what, micro] : {std::pair{"train", &role.train}, std::pair{"forward", &role.forward}}) {
    HEADROOM_TRY(count(at + "." + what + ".sequences", micro->sequences, 0));
    HEADROOM_TRY(count(at + "." + what + ".tokens", micro->tokens, 0));
    HEADROOM_TRY(count(at + "." + what + ".round_to", micro->round_to, 1));
  }
  HEADROOM_TRY(count(at + ".mini_batch", role.mini_batch, 0));
  HEADROOM_TRY(count(at + ".epochs", role.epochs, 0));
  if (!role.takes_place_of.empty() && job.role(role.takes_place_of) == nullptr)
    return bad(at + ".takes_place_of", fmt::format("no role is named {}", role.takes_place_of));
  if (!role.shares_weights_of.empty() && job.role(role.shares_weights_of) == nullptr)
    return bad(at + ".shares_weights_of", fmt::format("no role is named {}", role.shares_weights_of));
  if (!role.loss.reference.empty()) {
    const Role* reference = job.role(role.loss.reference);
    if (reference == nullptr || reference->trained || job.process_of(reference->name) != job.process_of(role.name))
      return bad(at + ".loss.reference", fmt::format("expected an untrained role of the same process, found {}",
                                                     role.loss.reference));
  }
  return {};
}

/// Without an engine that packs, a role's micro-batches are run one by one.
Status check_micro_batches(const Job& job, const Role& role) {
  if (!lies_padded(job, role)) return {};
  const std::int64_t data = std::max<std::int64_t>(1, data_parallel_size(job, role));
  const std::int64_t sequences = job.batch.sequences() / data;
  if (sequences < 1)
    return bad("batch", fmt::format("expected a sequence for each of {} data-parallel ranks, found {}", data,
                                    job.batch.sequences()));
  const auto or_else = [](std::int64_t value, std::int64_t otherwise) {
    return value > 0 ? value : otherwise;
  };
  const std::int64_t mini = std::max<std::int64_t>(1, mini_batch_of(job, role) / data);
  const std::int64_t train = or_else(role.train.sequences, sequences);
  const std::int64_t forwards = ceil_div(sequences, or_else(role.forward.sequences, train));
  const std::int64_t epochs = or_else(role.epochs, job.batch.epochs);
  const std::int64_t trained = role.trained ? ceil_div(sequences, std::min(train, mini)) : std::int64_t{0};
  if (forwards > kMostMicroBatches || trained > kMostMicroBatches / epochs)
    return bad("roles." + role.name,
               fmt::format("expected at most {} micro-batches a step, found {} forward and {} x {} epochs in "
                           "training; check the batch, its epochs and the micro-batches' sequences",
                           kMostMicroBatches, forwards, trained, epochs));
  return {};
}

Status check_engine(const Job& job, const Engine& engine) {
  const std::string at = "engines." + engine.name;
  if (engine.model == nullptr) return bad(at + ".model", "expected a model, found none");
  const std::pair<const char*, std::int64_t> sizes[] = {{"tensor", engine.tensor},
                                                        {"pipeline", engine.pipeline},
                                                        {"data", engine.data},
                                                        {"expert", engine.expert},
                                                        {"block_size", engine.block_size},
                                                        {"max_sequences", engine.max_sequences},
                                                        {"max_batched_tokens", engine.max_batched_tokens}};
  for (const auto& [what, size] : sizes) HEADROOM_TRY(count(at + "." + what, size, 1));
  HEADROOM_TRY(count(at + ".max_length", engine.max_length, 0));
  if (!(engine.utilization > 0 && engine.utilization <= 1))
    return bad(at + ".utilization",
               fmt::format("expected a fraction above 0 and at most 1, found {}", engine.utilization));
  if (engine.sleep_level < 0 || engine.sleep_level > 2)
    return bad(at + ".sleep_level", fmt::format("expected 0, 1 or 2, found {}", engine.sleep_level));
  HEADROOM_TRY(check_heads(*engine.model, engine.tensor, at + ".tensor"));
  for (const Process& process : job.processes) {
    if (process.engine != engine.name) continue;
    const Pool* pool = job.pool(process.pool);
    if (pool == nullptr)
      return bad("processes." + process.name + ".pool", fmt::format("no pool is named {}", process.pool));
    const std::int64_t replica = engine.tensor * engine.pipeline * engine.data;
    if (pool->gpus() % replica != 0)
      return bad(
          at,
          fmt::format("expected a replica size (tensor · pipeline · data) that divides the {} GPUs, found {}",
                      pool->gpus(), replica));
  }
  return {};
}

Status check_phases(const Job& job, const std::vector<PhaseSpec>& phases, const std::string& list) {
  for (const PhaseSpec& phase : phases) {
    const std::string at = list + "." + name(phase.kind);
    HEADROOM_TRY(count(at + ".every", phase.when.every, 1));
    HEADROOM_TRY(count(at + ".from", phase.when.from, 0));
    HEADROOM_TRY(count(at + ".shift", phase.when.shift, 0));
    for (const Action& action : phase.actions) {
      const std::string what = fmt::format("{}.{}", at, enum_name(action.verb));
      if (!action.role.empty() && job.role(action.role) == nullptr)
        return bad(what, fmt::format("no role is named {}", action.role));
      if (!action.engine.empty() && job.engine(action.engine) == nullptr)
        return bad(what, fmt::format("no engine is named {}", action.engine));
      const Role* role = job.role(action.role);
      if ((action.verb == Verb::load || action.verb == Verb::offload) && role != nullptr &&
          (is_zero(role->sharding.kind) || role->sharding.kind == ShardingKind::gemini) &&
          (action.parts & kWeights) != 0)
        return bad(what, fmt::format("expected no weights of role {}: no program moves those of {}", role->name,
                                     is_zero(role->sharding.kind) ? "a DeepSpeed engine" : "Gemini"));
      if (action.role.empty() && action.engine.empty() && action.verb != Verb::experience)
        return bad(what, "expected a role or an engine, found none");
    }
  }
  return {};
}

}  // namespace

Status validate_job(const Job& job) {
  if (job.pools.empty()) return bad("pools", "expected at least one pool of GPUs, found none");
  HEADROOM_TRY(unique_names(job.pools, "pools"));
  HEADROOM_TRY(unique_names(job.roles, "roles"));
  HEADROOM_TRY(unique_names(job.engines, "engines"));
  HEADROOM_TRY(unique_names(job.processes, "processes"));
  for (const Pool& pool : job.pools) {
    HEADROOM_TRY(count("pools." + pool.name + ".nodes", pool.nodes, 1));
    HEADROOM_TRY(count("pools." + pool.name + ".gpus_per_node", pool.gpus_per_node, 1));
    HEADROOM_TRY(count("pools." + pool.name, pool.gpus(), 1));
    if (pool.gpus() > kMostGpus)
      return bad("pools." + pool.name, fmt::format("expected at most {} GPUs, found {}", kMostGpus, pool.gpus()));
  }
  if (job.steps < 1 || job.steps > 1000)
    return bad("steps", fmt::format("expected 1 to 1000 simulated steps, found {}", job.steps));
  HEADROOM_TRY(check_batch(job));
  for (const Process& process : job.processes) {
    const std::string at = "processes." + process.name;
    for (const std::string& role : process.roles)
      if (job.role(role) == nullptr) return bad(at + ".roles", fmt::format("no role is named {}", role));
    if (const auto settings = allocator::parse_simulated_settings(process.allocator_settings); !settings)
      return bad(at + ".allocator_settings",
                 fmt::format("{}{}{}", settings.error().key, settings.error().key.empty() ? "" : ": ",
                             settings.error().message));
    if (!process.engine.empty() && job.engine(process.engine) == nullptr)
      return bad(at + ".engine", fmt::format("no engine is named {}", process.engine));
  }
  for (const Role& role : job.roles) {
    HEADROOM_TRY(check_role(job, role));
    HEADROOM_TRY(check_micro_batches(job, role));
  }
  for (const Engine& engine : job.engines) HEADROOM_TRY(check_engine(job, engine));
  HEADROOM_TRY(check_phases(job, job.start, "start"));
  for (const PhaseSpec& phase : job.start)
    if (phase.when != When{} || phase.overlaps_next)
      return bad(fmt::format("start.{}", name(phase.kind)),
                 "expected neither when nor overlaps_next: phases of the start run once, one after the other");
  HEADROOM_TRY(check_phases(job, job.step, "step"));
  HEADROOM_TRY(check_calls(job));
  return check_residency(job);
}

}  // namespace headroom

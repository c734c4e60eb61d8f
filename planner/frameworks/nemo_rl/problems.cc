#include <fmt/format.h>

#include <algorithm>

#include "planner/frameworks/nemo_rl/settings.h"

namespace headroom::nemo_rl {
namespace {

using Found = std::optional<Problem>;

Found problem(std::string key, std::string message) {
  return Problem{.key = std::move(key), .message = std::move(message)};
}

std::int64_t model_ranks(const Policy& p) {
  const Megatron& m = p.megatron;
  return p.runs_megatron() ? m.tensor * m.pipeline * m.context : p.dtensor.tensor * p.dtensor.context;
}

std::int64_t most_experts(const Architecture& model) {
  std::int64_t most = 0;
  for (const LayerGroup& group : model.decoder.groups)
    if (group.layer.mlp.kind == MlpKind::experts) most = std::max(most, group.layer.mlp.experts);
  return most;
}

Found backend(const Settings& s, const Policy& p, const std::string& at) {
  if (p.dtensor.enabled && p.megatron.enabled)
    return problem(at + "megatron_cfg.enabled",
                   "expected one backend, found dtensor_cfg.enabled and megatron_cfg.enabled both true");
  if (!p.dtensor.enabled && !p.megatron.enabled && s.since(0, 3))
    return problem(at + "dtensor_cfg.enabled",
                   "expected one backend, found dtensor_cfg.enabled and megatron_cfg.enabled both false");
  if (p.packing.enabled && p.dynamic.enabled)
    return problem(at + "dynamic_batching.enabled",
                   "expected sequence_packing or dynamic_batching, found both enabled");
  if (p.dynamic.enabled && p.runs_megatron() && p.megatron.pipeline > 1)
    return problem(at + "dynamic_batching.enabled",
                   "expected false: micro-batches of different lengths do not go through a pipeline");
  const Budget& b = p.packing.enabled ? p.packing : p.dynamic;
  if (b.enabled && b.train_tokens < p.length)
    return problem(
        at + (p.packing.enabled ? "sequence_packing" : "dynamic_batching") + ".train_mb_tokens",
        fmt::format("expected at least max_total_sequence_length ({}), found {}", p.length, b.train_tokens));
  return {};
}

/// Automodel deals whole experts out over ranks of the data-parallel group.
Found dealt_experts(const Policy& p, std::int64_t gpus, const std::string& at) {
  const std::int64_t ranks = p.dtensor.expert, experts = most_experts(*p.architecture);
  const std::string key = at + "dtensor_cfg.expert_parallel_size";
  if (experts == 0) return problem(key, fmt::format("expected 1: {} has no routed experts", p.model));
  if (gpus % ranks != 0)
    return problem(key, fmt::format("expected a divisor of the {} GPUs of the training, found {}", gpus, ranks));
  if (experts % ranks != 0)
    return problem(key, fmt::format("expected a divisor of the {} routed experts, found {}", experts, ranks));
  if (p.dtensor.tensor > 1)
    return problem(at + "dtensor_cfg.tensor_parallel_size",
                   fmt::format("expected 1 beside expert_parallel_size {}: Automodel's own mixtures are not cut, found {}",
                               ranks, p.dtensor.tensor));
  return {};
}

Found groups(const Settings& s, const Policy& p, const std::string& at) {
  const std::int64_t gpus = s.train_gpus(), ranks = model_ranks(p);
  const std::string key = at + (p.runs_megatron() ? "megatron_cfg.tensor_model_parallel_size"
                                                  : "dtensor_cfg.tensor_parallel_size");
  if (gpus < 1)
    return problem("policy.generation.colocated.resources.gpus_per_node",
                   fmt::format("expected to leave GPUs for the training, found {} of {}",
                               s.generation_gpus_per_node(), s.gpus_per_node));
  if (ranks > gpus || gpus % ranks != 0)
    return problem(key, fmt::format("expected a product of parallel sizes that divides the {} GPUs of the "
                                    "training, found {}",
                                    gpus, ranks));
  if (p.dtensor.deals_experts())
    if (Found found = dealt_experts(p, gpus, at)) return found;
  const std::int64_t data = gpus / ranks;
  if (p.global_batch % data != 0)
    return problem(
        at + "train_global_batch_size",
        fmt::format("expected a multiple of the {} data-parallel ranks, found {}", data, p.global_batch));
  if (p.runs_megatron() && gpus % (p.megatron.expert * p.megatron.expert_tensor * p.megatron.pipeline) != 0)
    return problem(at + "megatron_cfg.expert_model_parallel_size",
                   fmt::format("expected expert, expert tensor and pipeline sizes that divide the {} GPUs, "
                               "found {} x {} x {}",
                               gpus, p.megatron.expert, p.megatron.expert_tensor, p.megatron.pipeline));
  return {};
}

Found generation(const Settings& s) {
  const Generation& g = s.policy.generation;
  const std::string at = "policy.generation.";
  if (s.separate() && s.generation_gpus_per_node() < 1)
    return problem(at + "colocated.resources.gpus_per_node",
                   "expected the GPUs that generate (colocated.enabled is false), found none");
  if (s.separate() && s.nodes > 1 && (s.generation_nodes() < 1 || s.generation_nodes() >= s.nodes))
    return problem(at + "colocated.resources.num_nodes",
                   fmt::format("expected from 1 to {} of the {} nodes, found {}", s.nodes - 1, s.nodes,
                               s.generation_nodes()));
  if (s.async && g.colocated && s.release < kHead)
    return problem(at + "colocated.enabled",
                   "expected false: asynchronous training needs GPUs that generate");
  if (!(g.utilization > 0 && g.utilization <= 1))
    return problem(at + "vllm_cfg.gpu_memory_utilization",
                   fmt::format("expected a fraction above 0 and at most 1, found {}", g.utilization));
  if (g.expert > 1 && g.expert % g.tensor != 0)
    return problem(
        at + "vllm_cfg.expert_parallel_size",
        fmt::format("expected a multiple of the tensor-parallel size {}, found {}", g.tensor, g.expert));
  const std::int64_t gpus =
      s.separate() ? s.generation_nodes() * s.generation_gpus_per_node() : s.nodes * s.gpus_per_node;
  const std::int64_t replica = g.tensor * g.pipeline;
  if (g.backend == "vllm" && (replica > gpus || gpus % replica != 0))
    return problem(
        at + "vllm_cfg.tensor_parallel_size",
        fmt::format("expected an engine (tensor x pipeline) whose size divides the {} GPUs, found {}", gpus,
                    replica));
  return {};
}

}  // namespace

std::optional<Problem> find_problem(const Settings& s) {
  const std::pair<const Policy*, const char*> models[] = {
      {&s.policy, "policy."},
      {s.algorithm == Algorithm::ppo ? &s.value : nullptr, "value."},
      {s.algorithm == Algorithm::distillation ? &s.teacher : nullptr, "teacher."}};
  for (const auto& [policy, at] : models) {
    if (policy == nullptr) continue;
    if (Found found = backend(s, *policy, at)) return found;
  }
  if (s.generates())
    if (Found found = generation(s)) return found;
  for (const auto& [policy, at] : models) {
    if (policy == nullptr || (policy == &s.teacher)) continue;
    if (Found found = groups(s, *policy, at)) return found;
  }
  if (s.algorithm == Algorithm::rm && (s.policy.packing.enabled || s.policy.runs_megatron()))
    return problem(
        s.policy.runs_megatron() ? "policy.megatron_cfg.enabled" : "policy.sequence_packing.enabled",
        "expected false: reward models train on padded rows under FSDP2");
  if (s.on_policy && s.generates() && s.policy.global_batch != s.prompts * s.samples)
    return problem("loss_fn.force_on_policy_ratio",
                   fmt::format("expected train_global_batch_size to be the step's {} sequences, found {}",
                               s.prompts * s.samples, s.policy.global_batch));
  if (s.generates() && s.prompts * s.samples % s.policy.global_batch != 0 &&
      s.algorithm != Algorithm::distillation)
    return problem("policy.train_global_batch_size",
                   fmt::format("expected a divisor of the step's {} sequences, found {}",
                               s.prompts * s.samples, s.policy.global_batch));
  return {};
}

}  // namespace headroom::nemo_rl

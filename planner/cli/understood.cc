#include "planner/cli/understood.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace headroom::cli {
namespace {

/// The role that the run is about: the first trained one, else the first.
const Role* main_role(const Job& job) {
  for (const Role& role : job.roles)
    if (role.trained) return &role;
  return job.roles.empty() ? nullptr : &job.roles.front();
}

std::string model_text(const Role& role) {
  std::string out = role.model_name.empty() ? "a model" : role.model_name;
  if (role.model)
    out += fmt::format(" ({:.2f} billion parameters)", static_cast<double>(role.model->parameters()) / 1e9);
  return out;
}

std::string gpu_text(const Job& job, const Hardware& hardware) {
  std::string out;
  for (const Pool& pool : job.pools) {
    out += fmt::format("{}{} × {}", out.empty() ? "" : " + ", pool.gpus(), hardware.name);
    if (pool.nodes > 1) out += fmt::format(" ({} nodes of {})", pool.nodes, pool.gpus_per_node);
    if (job.pools.size() > 1) out += " for " + pool.name;
  }
  return out;
}

std::string sharding_text(const Role& role) {
  const auto kind = [&]() -> std::string {
    switch (role.sharding.kind) {
      case ShardingKind::none:
        return "unsharded";
      case ShardingKind::data_parallel:
        return "data parallel";
      case ShardingKind::fsdp1:
        return "FSDP1";
      case ShardingKind::fsdp2:
        return "FSDP2";
      case ShardingKind::zero0:
        return "ZeRO 0";
      case ShardingKind::zero1:
        return "ZeRO 1";
      case ShardingKind::zero2:
        return "ZeRO 2";
      case ShardingKind::zero3:
        return "ZeRO 3";
      case ShardingKind::low_level_zero1:
        return "LowLevelZero 1";
      case ShardingKind::low_level_zero2:
        return "LowLevelZero 2";
      case ShardingKind::gemini:
        return "Gemini";
      case ShardingKind::megatron:
        return "Megatron";
    }
    return "";
  };
  std::vector<std::string> parts = {kind()};
  if (role.recompute.kind == RecomputeKind::full) parts.emplace_back("layers recomputed");
  if (role.recompute.kind == RecomputeKind::selective) parts.emplace_back("some modules recomputed");
  if (role.sharding.cpu_offload || role.sharding.offload_parameters) parts.emplace_back("weights on the host");
  if (role.sharding.offload_optimizer) parts.emplace_back("optimizer on the host");
  if (role.activation_offload) parts.emplace_back("activations offloaded");
  if (role.lora) parts.push_back(fmt::format("LoRA of rank {}", role.lora->rank));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string batch_text(const Job& job) {
  const Batch& batch = job.batch;
  return fmt::format("{} prompts × {} responses a step, up to {} + {} tokens", batch.prompts, batch.samples,
                     batch.prompt_length, batch.response_length);
}

std::string micro_batch_text(const Role& role) {
  const MicroBatch& train = role.train;
  if (train.tokens > 0) return fmt::format("up to {} tokens a GPU", train.tokens);
  if (train.sequences > 0) return fmt::format("{} sequence{}", train.sequences, train.sequences == 1 ? "" : "s");
  return "";
}

std::string engine_text(const Engine& engine) {
  if (engine.kind == EngineKind::vllm || engine.kind == EngineKind::sglang)
    return fmt::format("{}, {} GPU{} each, {:.0f} % of the card", engine.kind == EngineKind::vllm ? "vLLM" : "SGLang",
                       engine.tensor * engine.pipeline, engine.tensor * engine.pipeline == 1 ? "" : "s",
                       100 * engine.utilization);
  return "the trainer's own generate";
}

/// Whether roles' weights or states leave the device between phases.
bool offloads_between_phases(const Job& job) {
  for (const PhaseSpec& phase : job.step)
    for (const Action& action : phase.actions)
      if (action.verb == Verb::offload) return true;
  return false;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> understood(const Job& job, const Hardware& hardware) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto add = [&](const char* what, std::string text) {
    if (!text.empty()) out.emplace_back(what, std::move(text));
  };
  const Role* role = main_role(job);
  if (role != nullptr) add("model", model_text(*role));
  add("GPUs", gpu_text(job, hardware));
  add("framework", job.framework + (job.versions.framework.empty() ? "" : " " + job.versions.framework));
  add("batch", batch_text(job));
  if (role != nullptr) {
    add("training", sharding_text(*role));
    add("micro-batch", micro_batch_text(*role));
  }
  if (offloads_between_phases(job)) add("offload", "weights or states go to the host between phases");
  for (const Engine& engine : job.engines) add("engine", engine_text(engine));
  return out;
}

}  // namespace headroom::cli

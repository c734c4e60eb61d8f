#include "planner/frameworks/easyr1/settings.h"

namespace headroom::easyr1 {
namespace {

void set_optimizer(Role& role, OptimizerStrategy strategy) {
  role.optimizer.implementation = OptimizerImplementation::fused;
  if (strategy == OptimizerStrategy::adamw) return;
  role.optimizer.implementation = OptimizerImplementation::loop;
  role.optimizer.states = DType::bf16;
  role.optimizer.master_bytes = element_size(DType::bf16);
}

}  // namespace

std::optional<std::int64_t> DynamicBatch::sequences(std::int64_t tokens) const {
  const std::int64_t all = tokens * ulysses;
  return all > 0 && all % length == 0 ? std::optional(all / length) : std::nullopt;
}

void adapt(Job& job, const Settings& settings) {
  job.framework = "easyr1";
  for (Role& role : job.roles) {
    if (role.name == "actor") set_optimizer(role, settings.actor_optimizer);
    if (role.name == "critic") set_optimizer(role, settings.critic_optimizer);
    if (role.name == "ref" && !settings.reference_on_host) role.sharding.cpu_offload = role.sharding.pin_memory = false;
    // Frozen weights under adapters are bf16; the adapters have the dtype that the model was asked for.
    if (role.lora) role.precision.weights = DType::bf16;
  }
  job.not_modelled.insert(job.not_modelled.end(), settings.not_modelled.begin(), settings.not_modelled.end());
}

}  // namespace headroom::easyr1

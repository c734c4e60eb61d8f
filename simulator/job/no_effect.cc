#include "simulator/job/no_effect.h"

#include <fmt/format.h>

#include "simulator/job/names.h"

namespace headroom {
namespace {

class Collector {
 public:
  void add(bool in_vain, std::string key, std::string message) {
    if (in_vain) found_.push_back({std::move(key), std::move(message)});
  }
  std::vector<NoEffect> take() { return std::move(found_); }

 private:
  std::vector<NoEffect> found_;
};

void add_role(const Role& role, Collector& found) {
  const std::string at = "roles." + role.name;
  const Sharding& sharding = role.sharding;
  const std::string_view kind = enum_name(sharding.kind);
  const bool fsdp1 = sharding.kind == ShardingKind::fsdp1;
  const bool fsdp = fsdp1 || sharding.kind == ShardingKind::fsdp2;
  found.add(
      role.attention_kernel != AttentionKernel::by_gpu && role.attention != AttentionImplementation::sdpa,
      "sdpa_kernel", "sdpa_kernel has no effect on attention that is not scaled_dot_product_attention's");
  found.add(
      role.fused_kernels, at + ".fused_kernels",
      "Liger's fused norm, rotary and SwiGLU are not modelled: activations are somewhat less than shown");
  found.add(!sharding.layers_wrapped && !fsdp, at + ".sharding.layers_wrapped",
            fmt::format("has no effect under {}: only FSDP takes a whole model as one unit", kind));
  found.add(sharding.trainable_leaves_wrapped && !(fsdp1 && role.lora),
            at + ".sharding.trainable_leaves_wrapped", "has no effect but on FSDP1's adapters");
  found.add(sharding.forward_prefetch && !fsdp, at + ".sharding.forward_prefetch",
            fmt::format("has no effect under {}: FSDP prefetches", kind));
  found.add(sharding.cpu_offload && !fsdp, at + ".sharding.cpu_offload",
            fmt::format("has no effect under {}: it is FSDP's", kind));
  found.add(sharding.gathers_to_generate && role.loop == nullptr, at + ".sharding.gathers_to_generate",
            "has no effect: only loops that generate with the trained model's own modules gather every weight before");
  found.add(sharding.allgather_bucket != Sharding{}.allgather_bucket, at + ".sharding.allgather_bucket",
            "has no effect on memory: DeepSpeed gathers updated weights where they lie, piece by piece");
  found.add(role.padded && role.loop == nullptr, at + ".padded",
            "has no effect: the plain and the packed loop take masks as full");
  found.add(role.loaded_into_cache && sharding.kind != ShardingKind::none, at + ".loaded_into_cache",
            fmt::format("has no effect under {}, which loads on the host", kind));
  found.add(role.lora && role.lora->alpha != LoraSpec{}.alpha, at + ".lora.alpha",
            "has no effect on memory or time: it is a factor");
  found.add(role.lora && !role.lora->saved_modules.empty(), at + ".lora.saved_modules",
            "is not modelled: the trained copies, their gradients and states are missing");
  found.add(role.megatron.wraps_on_own_stream, at + ".megatron.wraps_on_own_stream",
            "shows in the stream of events (`simulate --events`) alone");
  // What only the packed loop does.
  const bool packed = role.loop == nullptr && sharding.kind != ShardingKind::megatron;
  found.add(role.loss.entropy_recomputed && !packed, at + ".loss.entropy_recomputed",
            "is not modelled here: what the entropy's backward keeps is shown as if it were kept");
  found.add(role.loss.keeps_outputs && !packed, at + ".loss.keeps_outputs",
            "is not modelled here: outputs of micro-batches are a few bytes a token");
  found.add(!role.loss.reference.empty() && !(packed && role.trained), at + ".loss.reference",
            "has no effect: only updates of the packed loop ask another role");
  found.add(role.loss.sum_pi_squared && sharding.kind != ShardingKind::megatron, at + ".loss.sum_pi_squared",
            "is not modelled under this sharding: its temporaries are missing");
  found.add(role.optimizer.cpu_fraction > 0 && sharding.kind != ShardingKind::megatron,
            at + ".optimizer.cpu_fraction", fmt::format("has no effect under {}: it is Megatron's", kind));
}

}  // namespace

std::vector<NoEffect> no_effect(const Job& job) {
  Collector found;
  for (const Role& role : job.roles)
    if (role.shares_weights_of.empty()) add_role(role, found);  // else its owner's settings decide
  for (const Engine& engine : job.engines)
    found.add(engine.loads_weights, fmt::format("engines.{}.loads_weights", engine.name),
              "changes no memory: weights stand on the GPU from the start either way");
  for (const PhaseSpec& phase : job.step)
    found.add(phase.overlaps_next, fmt::format("step.{}.overlaps_next", name(phase.kind)),
              "changes no memory, and phases are shown one after the other: a step takes at most their sum");
  return found.take();
}

}  // namespace headroom

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/frameworks/verl/settings.h"
#include "simulator/job/job.h"

namespace headroom::easyr1 {

/// One trained model's optimizer: PyTorch's fused AdamW, or EasyR1's own `adamw_bf16`, which works parameter by
/// parameter with moments and the remainders of a compensated sum in bf16.
enum class OptimizerStrategy { adamw, adamw_bf16 };

/// verl's settings of the same run and what verl has no word for.
struct Settings : verl::Settings {
  OptimizerStrategy actor_optimizer = OptimizerStrategy::adamw, critic_optimizer = OptimizerStrategy::adamw;
  bool reference_on_host = true;  ///< FSDP streams its units from the host
  std::vector<std::string> not_modelled;
};

/// What a dynamic micro-batch holds: `sequences` of the full length, shared by the GPUs of a sequence-parallel group.
/// EasyR1 states sequences, verl the tokens of one GPU.
struct DynamicBatch {
  std::int64_t length = 1, ulysses = 1;

  std::int64_t tokens(std::int64_t sequences) const { return sequences * length / ulysses; }
  /// Nothing where they are no whole number of sequences.
  std::optional<std::int64_t> sequences(std::int64_t tokens) const;
};

/// Makes of verl's job what EasyR1's workers do differently.
void adapt(Job& job, const Settings& settings);

}  // namespace headroom::easyr1

#pragma once

#include "simulator/job/loop_kind.h"

namespace headroom::trl {

/// The loops of TRL's GRPOTrainer and RLOOTrainer (grpo_loop.h), of its PPOTrainer (ppo_loop.h), and of its
/// SFTTrainer, RewardTrainer and DPOTrainer (supervised_loop.h).
extern const LoopKind kGrpoLoop, kPpoLoop, kSupervisedLoop;
inline constexpr const LoopKind* kLoops[] = {&kGrpoLoop, &kPpoLoop, &kSupervisedLoop};

}  // namespace headroom::trl

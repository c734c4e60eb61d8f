#pragma once

#include "simulator/job/loop_kind.h"

namespace headroom::trl {

/// The loops of TRL's GRPOTrainer (grpo_loop.h) and PPOTrainer (ppo_loop.h).
extern const LoopKind kGrpoLoop, kPpoLoop;
inline constexpr const LoopKind* kLoops[] = {&kGrpoLoop, &kPpoLoop};

}  // namespace headroom::trl

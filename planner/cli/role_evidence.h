#pragma once

#include <vector>

#include "planner/frameworks/engines/evidence.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"

namespace headroom::cli {

/// What a figure of a role's process rests on.
struct RoleEvidence {
  std::string component;
  engines::Standing standing = engines::Standing::inferred;
  std::string because;
};

/// For each part of Megatron-Core that `role` uses: recorded where runs on GPUs were held against it, read where only
/// its source tells it, inferred where neither does. Nothing for roles under other runtimes, which are recorded loop by
/// loop (docs/ACCURACY.md).
std::vector<RoleEvidence> role_evidence(const Role& role);

/// The same of what every process on the card holds beside its allocator, as the card's profile says.
std::vector<RoleEvidence> process_evidence(const Hardware& hardware);

}  // namespace headroom::cli

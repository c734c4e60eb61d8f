#pragma once

#include <string>
#include <vector>

#include "simulator/job/job.h"

namespace headroom {

/// A setting that changes nothing in this job, or whose effect no program models.
struct NoEffect {
  std::string key;      ///< of the job: roles.actor.fused_kernels
  std::string message;  ///< why, and what it means for the figures
};

/// Those that `job` makes. What a job can't mean is `validate_job`'s.
std::vector<NoEffect> no_effect(const Job& job);

}  // namespace headroom

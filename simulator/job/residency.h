#pragma once

#include "simulator/job/job.h"

namespace headroom {

/// Whether every pass finds what it works on: a forward, a generation inside the trainer or a training needs
/// the role's weights on the device, a training its optimizer states and fp32 masters too. Follows offloads,
/// releases and loads through the start and the first steps (a state that recurs step by step shows in two).
/// Of a role that shares another's weights, the other's count. Errors: the phase, the action and what is
/// missing; a job file's author is told to load it first. O(actions).
Status check_residency(const Job& job);

}  // namespace headroom

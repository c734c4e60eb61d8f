#pragma once

#include <span>

#include "planner/frameworks/verl/knob_table.h"

namespace headroom::verl {

/// Rows of the knob table for Megatron-Core: how a model is laid out over GPUs and what it recomputes. The
/// reference follows the actor where it has the actor's value.
std::span<const KnobRow> megatron_knobs();

}  // namespace headroom::verl

#pragma once

#include "models/architecture/architecture.h"

namespace headroom {

/// Whether a family's checkpoints hold all experts of a layer in one tensor, which whoever exports weights in that form
/// collects and joins; all others hold one expert (`experts.0`, `experts.1`, …) after the other, whatever the running
/// model does. Sources: mbridge's and Megatron-Bridge's export of weights, the checkpoints' own indices.
bool has_stacked_checkpoint(const Architecture& model);

}  // namespace headroom

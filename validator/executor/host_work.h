#pragma once

#include "validator/executor/work.h"

namespace headroom::gpu {

/// Does an operation over tensors on the host: Adam, norms, sums and scaling of gradients, casts. Of outputs
/// on the card (a norm's number) nothing is written. False, with nothing done, for what it does not know.
/// Returns when it is done.
bool work_on_host(const PlacedOperation& work);

}  // namespace headroom::gpu

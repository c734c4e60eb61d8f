#pragma once

#include "validator/kernels/adamw_step.h"

namespace headroom::gpu {

/// The step over host memory, on several threads: what an optimizer does whose states are offloaded
/// (DeepSpeedCPUAdam, AdamW over shards of FSDP2's CPUOffloadPolicy). Element types are fp32, fp16 or bf16;
/// arithmetic is fp32. Returns when it is done.
void adamw_on_host(const AdamW&);

}  // namespace headroom::gpu

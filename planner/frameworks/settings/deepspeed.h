#pragma once

#include <string>

#include "simulator/job/role.h"

namespace headroom::settings {

/// Sets what differs between releases of DeepSpeed in how ZeRO shards, by its history:
///
///   0.17.1  bf16 gradients too are looked through for infinities (`bf16.check_grad_overflow` is on by default)
///   0.18.3  reduce buckets are made with the first gradient of a backward, not before it; gradients of the module's
///           outputs are divided by the gradient accumulation steps on their way
///   0.18.5  a parameter gathered alone becomes what was gathered
///   0.18.7  ZeRO 1 and 2 join weights on the device where there is room for both
///
/// `scales`: the trainer leaves that division to the engine (`scale_wrt_gas`, DeepSpeed's default). A `version` that
/// is no release, or none: the newest.
void set_deepspeed_release(const std::string& version, bool scales, Sharding& sharding);

}  // namespace headroom::settings

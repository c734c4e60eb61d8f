#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "models/document/document.h"
#include "simulator/job/job.h"

namespace headroom::study {

/// A change of a Job that needs no framework's keys.
struct Change {
  std::string kind, value;  ///< words of change_kinds(); `value` as the file has it
  int line = 0;
};

/// What may be changed: `zero` (0 to 3: DeepSpeed's engines and unsharded roles), `offload_optimizer`,
/// `offload_parameters` (flags), `recompute` (none, full), `lora` (the rank, on all linear layers), `allocator`
/// (PYTORCH_CUDA_ALLOC_CONF of training processes), `ems` (flag: a role's weights and optimizer states are on the
/// host outside the phases that need them, with the cache emptied as they go), `reward_model` (flag: the second
/// step of RLHF instead of the third, its scalar model trained alone on pairs), `reshard_after_forward` (flag, FSDP:
/// false keeps weights gathered until the backward, as ZeRO-2 does).
std::span<const std::string_view> change_kinds();

/// Checks the word and its value; errors without a place.
Result<Change> make_change(std::string kind, const Document& value);

/// `job` with the change made. Errors: what it needs is not in the job.
Result<Job> changed(Job job, const Change& change);

}  // namespace headroom::study

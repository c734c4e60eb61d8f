#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/result.h"

namespace headroom::cases {

/// What `target_modules` come to in one model.
struct LoraTargets {
  std::vector<std::string> names;      ///< for a LoraSpec
  std::vector<std::string> unmatched;  ///< words that name nothing that is adapted; PEFT passes over them
};

/// `target_modules` as PEFT reads it: a list holds last parts of module names, or whole ones, or
/// `all-linear`; one word alone that is not `all-linear` is a regular expression over whole names. `scalar`:
/// the model is a body with `v_head`, whose modules are named below `body`. Errors: nothing is adapted; the
/// language model's head is named, which PEFT adapts and no program does (`all-linear` leaves it out there as
/// well).
Result<LoraTargets> lora_targets(const Architecture& model, const std::vector<std::string>& words,
                                 bool is_list, bool scalar);

}  // namespace headroom::cases

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

/// The modules that `targets` come to, by their whole names, without those that `exclude_modules` takes out, as PEFT reads
/// it: a list holds names or their ends after a dot, one word alone is a regular expression over whole names
/// (tuners_utils.py: check_target_module_exists). Errors: no expression; nothing is left.
Result<std::vector<std::string>> without_modules(const Architecture& model, const LoraTargets& targets,
                                                 const std::vector<std::string>& excluded, bool is_list);

}  // namespace headroom::cases

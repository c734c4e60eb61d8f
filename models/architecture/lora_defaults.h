#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"

namespace headroom {

/// The modules that PEFT adapts in a model of this type (`model_type`): those named, else its default for the
/// type. Errors, at `key`: none are named and PEFT has no default. Source: PEFT's table of LoRA targets.
Result<std::vector<std::string>> lora_targets(const std::vector<std::string>& named, std::string_view family,
                                              std::string_view key);

}  // namespace headroom

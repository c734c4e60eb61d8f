#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The modules that PEFT adapts in a model of this type (`model_type`) where none are named. Empty: it has no
/// default for the type and asks for targets. Source: PEFT's table of LoRA targets.
std::vector<std::string> default_lora_targets(std::string_view family);

}  // namespace headroom

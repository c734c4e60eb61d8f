#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/architecture/architecture.h"
#include "planner/configuration/values.h"

namespace headroom::deepspeed_chat {

/// The model that `path`, the value of `key`, names, as the scripts make it: tables are cut to the tokenizer's length,
/// rounded up to eight rows (Llama's gets a padding token). Relative paths start at `base`; `stated`: the config itself,
/// null: it is looked up. Null after an error, which `values` keeps at `key`.
std::shared_ptr<const Architecture> model_of(Values& values, const std::string& key, const std::string& path,
                                             HeadKind head, const std::string& base, const Document& stated);

/// Names of the layers' linears whose whole name contains `scope` (--…lora_module_name), which adapters replace. GPT-2
/// has none: its layers are no nn.Linear.
std::vector<std::string> adapted_modules(const Architecture& model, const std::string& scope);

}  // namespace headroom::deepspeed_chat

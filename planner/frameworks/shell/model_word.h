#pragma once

#include <optional>
#include <string>

#include "planner/frameworks/shell/word.h"

namespace headroom::shell {

/// The model at the end of a path whose beginning nobody knows: `$DATA_HOME/models/Qwen3-8B` is Qwen3-8B wherever the
/// folder lies. Nothing when the last part is unknown too, or is no known model's name.
std::optional<std::string> model_at_end(const Word& path);

/// Whether two words name the same known model: `$DATA/model/Qwen2.5-3B-Instruct` and `Qwen/Qwen2.5-3B-Instruct`.
bool name_one_model(const Word& a, const Word& b);

}  // namespace headroom::shell

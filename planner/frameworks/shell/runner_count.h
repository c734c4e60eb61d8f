#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "models/base/result.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom::shell {

/// What the launch's runner was told by any of `names` (`--nproc_per_node`, `--nnodes`): processes or nodes. Nothing
/// where it was not told, or counts them itself (`gpu`, `auto`); of elastic nodes (`1:4`) the most.
///
/// Errors name the word's file and line: expected a whole number from 1 to 65536.
Result<std::optional<std::int64_t>> runner_count(const Launch& launch, std::initializer_list<std::string_view> names);

}  // namespace headroom::shell

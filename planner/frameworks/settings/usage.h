#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/configuration/values.h"
#include "planner/frameworks/read_job.h"
#include "planner/frameworks/settings/table.h"

namespace headroom::settings {

/// Whose keys a run has, for messages.
struct Owner {
  std::string_view framework;  ///< as users call it: NeMo RL
  Release release;
};

/// What became of every key that was given or asked for. Says by warnings: keys that are probably mistyped,
/// keys without a program (also named in `not_modelled`, which leaves a verdict undetermined), keys of other
/// releases. A key with an effect and of the wrong type is the error of `values`.
std::vector<KeyUse> account_for_keys(Values& values, std::span<const Key> keys, const Owner& owner,
                                     std::vector<std::string>& not_modelled);

}  // namespace headroom::settings

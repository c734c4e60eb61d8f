#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/configuration/values.h"
#include "planner/frameworks/read_job.h"
#include "planner/frameworks/settings/table.h"

namespace headroom::settings {

/// Whose keys a run has.
struct Owner {
  std::string_view framework;  ///< as users call it: NeMo RL
  Release release;
  /// The row of a key; empty: `find_key` among all.
  std::function<const Key*(std::string_view path)> find = {};
  /// Whether the framework has a key that no row names; empty: none that is known.
  std::function<bool(std::string_view path)> has = {};
  std::span<const std::string> words = {};  ///< overrides as written: `+key` adds one on purpose
};

/// What became of every key that was given or asked for. Says by warnings: keys that are probably mistyped
/// and keys without a program (both named in `not_modelled`, which leaves a verdict undetermined), keys of
/// other releases. Errors stay in `values`: a key with an effect and of the wrong type, one of the tool's own
/// section that it does not have.
std::vector<KeyUse> account_for_keys(Values& values, std::span<const Key> keys, const Owner& owner,
                                     std::vector<std::string>& not_modelled);

/// A key with an effect that `unknown` was probably meant to be: the same place and a similar name; a section
/// that is mistyped; or, when `anywhere`, the same name in another place of the same section. Empty: none.
std::string meant(std::span<const Key> keys, std::string_view unknown, bool anywhere);

}  // namespace headroom::settings

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "models/document/document.h"
#include "planner/frameworks/verl/version.h"

namespace headroom::verl {

/// Configurations that verl ships and that `--config-name` and `defaults:` name: `ppo_megatron_trainer`,
/// `dapo_trainer`, `fully_async_ppo_trainer` … Known are the keys with an effect that they change of
/// `ppo_trainer`, by release.
bool is_named(std::string_view name);

/// What `name` changes, its parents' changes below its own, as a tree. Empty for `ppo_trainer`.
Document named_settings(std::string_view name, const Version& release);

/// The configuration that a program of verl's starts with when no `--config-name` is given:
/// `recipe.dapo.main_dapo` → `dapo_trainer`. `ppo_trainer` for all others.
std::string_view configuration_of(std::string_view program);

/// Whether a program is one of verl's trainers, or a copy of one (`search_r1.trainer.main_ppo`).
bool is_trainer(std::string_view program);

/// The names, for messages.
std::string known_names();

}  // namespace headroom::verl

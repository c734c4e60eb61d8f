#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planner/configuration/layers.h"
#include "planner/frameworks/shell/launch.h"
#include "planner/frameworks/trl/settings.h"

namespace headroom::trl {

/// A run's files and words, by what they are.
struct Sources {
  const JobInput::File* command = nullptr;                   ///< a command's or a script's launch
  std::vector<const JobInput::File*> trainers;               ///< YAML of the trainer
  std::vector<const JobInput::File*> accelerate, deepspeed;  ///< named on Headroom's own command line
};
Sources sort_files(const JobInput& input);

/// The name behind a launch that starts one of TRL's trainers: `grpo`, `reward_modeling`, `kto` …; empty: it
/// starts something else.
std::string trainer_name(const shell::Launch& launch);
/// The trainer of that name, which may stand within a longer one; none: it is not read.
std::optional<Trainer> trainer_of(std::string_view name);
std::string_view name_of(Trainer trainer);
/// Whether a name has one of TRL's trainers in it, read or not.
bool names_a_trainer(std::string_view name);

/// Everything laid over each other, and what nobody knows before the run.
struct Laid {
  Layers layers;
  std::map<std::string, std::string> unknown;
  std::vector<std::string> assumptions;
};

/// Lays the files that `sources` names, those that they name in turn, the launcher's words, the program's,
/// then `--set`. Errors: a named file that is not there (paths tried), broken YAML or JSON.
Result<Laid> lay(const Sources& sources, std::span<const settings::Key> keys, const JobOptions& options);

}  // namespace headroom::trl

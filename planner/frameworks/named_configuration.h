#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/configuration/layers.h"
#include "planner/configuration/override.h"
#include "planner/frameworks/read_job.h"

namespace headroom {

/// Programs that take a configuration by a flag and change its keys by further words: NeMo RL's (`run_grpo.py --config
/// FILE policy.train_micro_batch_size=1`), EasyR1's (`verl.trainer.main config=FILE …`), ChatLearn's (`entrypoint.py grpo
/// -c FILE …`).

/// The configuration that `file`'s launch names, to be laid below the launch's own words. Nothing: no launch of these
/// programs, or a file of another framework (TRL has `--config`, too).
///
/// It is looked for from the working directory, below --include-path, and from the script's folder and those above it.
/// Without the flag NeMo RL's programs take one that lies beside them. Errors, at the launch: a file that is nowhere, or
/// whose name nobody knows before the run; one that is no YAML.
Result<std::optional<JobInput::File>> named_configuration(const JobInput::File& file, const JobOptions& options);

/// A word of a launch, or of a list of overrides, that changes a key.
struct ChangeOfKey {
  Override change;
  std::string open;  ///< what would tell its value, where nobody knows that before the run
};

/// What `file`, which is no map of keys, changes: the words of such a launch without its flags, or a list of overrides.
/// Errors: a word that is no override.
Result<std::vector<ChangeOfKey>> changes_of_keys(const JobInput::File& file);

/// Lays them over `layers`.
Status lay_changes(const JobInput::File& file, Layers& layers);

/// Variables of a run: what its scripts export, then what the command line says.
std::map<std::string, std::string> environment_of(const JobInput& input, const JobOptions& options);

}  // namespace headroom

#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/configuration/layers.h"
#include "planner/frameworks/read_job.h"

namespace headroom::verl {

/// The files and words of a run, laid over each other as Hydra composes them.
struct Laid {
  Layers layers;
  std::vector<std::string> named;  ///< verl's own configurations underneath, lowest first (named.h)
  std::map<std::string, std::string> environment;  ///< variables of the launch
  std::vector<std::string> words;                  ///< every word given, for what names a release
  std::string program;                             ///< what the launch starts; empty: no launch
  std::string own;  ///< the configuration in its package, where it is a project's own; empty: none
};

/// Follows `--config-name`, `--config-path` and `defaults:`: a file beside the script or configuration, in
/// the checkout around it, or below `--include-path` is read; a name of verl's own is noted. A program of a project's
/// own (`python -m rm_r1.verl.trainer.main_ppo`) starts from the configuration in its package. Errors: a
/// configuration that is neither, files that name each other in a circle, a word that is no override.
Result<Laid> lay(const JobInput& input, const JobOptions& options);

/// Whether a file is a list of overrides rather than YAML.
bool is_list_of_overrides(const JobInput::File& file);

}  // namespace headroom::verl

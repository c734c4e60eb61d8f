#pragma once

#include "models/base/result.h"
#include "planner/configuration/layers.h"
#include "planner/frameworks/read_job.h"

namespace headroom::nemo_rl {

/// The files of a run with the parents that their `defaults:` name, then `--set`, laid over each other as
/// NeMo RL's loader does: parents first, in order, depth first; maps merge, anything else replaces,
/// `_override_: true` in a map replaces the map below it. Resolvers: mul, add, sub, div, max, min.
///
/// A parent is looked for beside the file that names it, then under --include-path, then by its name in the
/// folders above that file. Errors: a parent that is nowhere (the places tried are listed), a circle of
/// parents (it is named), a file that is no map.
Result<Layers> lay_parents(const JobInput& input, const JobOptions& options);

}  // namespace headroom::nemo_rl

#pragma once

#include <string>

#include "planner/configuration/layers.h"
#include "planner/frameworks/nemo_rl/settings.h"

namespace headroom::nemo_rl {

/// The release whose files a run has, and why.
struct InferredRelease {
  Release release = kHead;
  std::string because;  ///< empty: no key tells
};

/// From keys that only some releases' files have; of a whole configuration also from keys that it lacks.
InferredRelease infer_release(const Layers& layers);

/// The libraries that a release is locked to; what `versions` has already stays.
void complete_versions(const Release& release, Versions& versions);

}  // namespace headroom::nemo_rl

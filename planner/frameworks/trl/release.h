#pragma once

#include <span>
#include <string>

#include "planner/configuration/layers.h"
#include "planner/frameworks/trl/settings.h"

namespace headroom::trl {

struct InferredRelease {
  Release release;
  std::string because;  ///< the keys that tell; empty: none does
};

/// The newest release that has every given key of `keys`.
InferredRelease infer_release(const Layers& layers, std::span<const settings::Key> keys);

/// Libraries that the release came with, where the user states none.
void complete_versions(const Release& release, Versions& versions);

}  // namespace headroom::trl

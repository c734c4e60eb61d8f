#pragma once

#include <string>

#include "planner/frameworks/registry.h"
#include "simulator/report/report.h"

namespace headroom::cli {

/// A key of the input, and where it stands.
struct KeyPlace {
  std::string file;
  int line = 0;
  std::string key;
};

/// Of an undetermined run, the key that leaves it open. Else the key that was given and has most to do with the highest peak: one that sets what the peak's largest
/// component hangs on (micro-batches for logits and activations, the engine's share for its cache, offload and
/// sharding for states). The first line of the last file where no such key was given.
KeyPlace key_to_blame(const ReadJob& read, const Report& report);

}  // namespace headroom::cli

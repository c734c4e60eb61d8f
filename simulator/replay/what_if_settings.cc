#include <vector>

#include "simulator/replay/what_if.h"

namespace headroom::replay {

std::span<const WhatIfSetting> default_what_if_settings() {
  static const std::vector<WhatIfSetting> settings = {
      {"default", "", false, false},
      {"expandable", "expandable_segments:True", false, false},
      {"split 32 MiB", "max_split_size_mb:32", false, false},
      {"split 128 MiB", "max_split_size_mb:128", false, false},
      {"split 512 MiB", "max_split_size_mb:512", false, false},
      {"round 1/8", "roundup_power2_divisions:8", false, false},
      {"round 1/4", "roundup_power2_divisions:4", false, false},
      {"round 1/256 to 1/32", "roundup_power2_divisions:[32:256,64:128,256:64,>:32]", false, false},
      {"collect at 80%", "garbage_collection_threshold:0.8", false, true},
      {"collect at 80%, split 128 MiB", "garbage_collection_threshold:0.8,max_split_size_mb:128", false,
       true},
      {"default, emptied at phase ends", "", true, false},
      {"expandable, emptied at phase ends", "expandable_segments:True", true, false},
  };
  return settings;
}

}  // namespace headroom::replay

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/base/bytes.h"

namespace headroom::test {

/// An allocation or free of a recorded trace (tests/data/rlhf/*.trace.json.gz).
struct RecordedEvent {
  bool allocation = true;
  std::int64_t id = 0;       ///< counted in order of allocation
  Bytes bytes = 0;           ///< requested
  std::int64_t stream = -1;  ///< -1: not recorded
  std::string label;         ///< `python line|operator|autograd node`, where recorded
};

/// Allocations and frees in order; segments are left out.
std::vector<RecordedEvent> recorded_events(const std::filesystem::path& trace);

}  // namespace headroom::test

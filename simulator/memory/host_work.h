#pragma once

#include <cstdint>

namespace headroom {

/// Python's work that no operation shows, for executors that tell time.
enum class HostWork : std::uint8_t {
  module_visit,  ///< `train()` and `eval()` set a flag of every module
  checkpoint,    ///< a region is run under activation checkpointing, with or without gradients
};

}  // namespace headroom

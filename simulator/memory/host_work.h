#pragma once

#include <cstdint>

namespace headroom {

/// Python's work that no operation shows, for executors that tell time.
enum class HostWork : std::uint8_t {
  module_visit,  ///< `train()` and `eval()` set a flag of every module
  checkpoint,    ///< a region is run under activation checkpointing, with or without gradients
  megatron_linear,           ///< a linear module of Megatron-Core or TransformerEngine is called
  megatron_linear_gradient,  ///< its backward, and what hooks do with its weight's gradient
  expert_exchange,           ///< Megatron's dispatcher exchanges rows of tokens with other ranks
};

}  // namespace headroom

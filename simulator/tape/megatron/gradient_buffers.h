#pragma once

#include <cstdint>
#include <vector>

#include "simulator/tape/megatron/stage.h"

namespace headroom::tape::megatron {

/// Where a parameter lies in its buffer, in elements.
struct BufferSlot {
  Tensor parameter;
  std::int64_t first = 0, count = 0;
};

/// One contiguous buffer of parameters (with a distributed optimizer) and one of gradients.
struct Buffer {
  bool expert = false;
  std::int64_t ranks = 1;     ///< over which the optimizer's shards run
  std::int64_t elements = 0;  ///< padding included
  Tensor parameters, gradients;
  std::vector<BufferSlot> slots;  ///< reverse order of definition
};

/// Megatron's DistributedDataParallel: the trained parameters of a stage in one buffer for the dense grid and
/// one for the expert grid. Each parameter starts at a multiple of 64 elements, a buffer ends at one of
/// lcm(ranks, 128). Gradients are zeroed there and live until they are released; what autograd leaves in
/// `.grad` is added to them and goes at once. Buckets are views and take nothing.
/// Source: distributed/param_and_grad_buffer.py.
class GradientBuffers {
 public:
  struct Options {
    DType gradients = DType::fp32;
    bool contiguous_parameters = true;  ///< distributed optimizer
    std::int64_t dense_ranks = 1, expert_ranks = 1;
  };
  /// Parameter buffers and gradient buffers come to exist, then the parameters' own storages go one by one.
  GradientBuffers(Stage& stage, const Options& options);

  std::vector<Buffer>& buffers() { return buffers_; }

  /// Parameters to pinned host buffers, which are kept from the first time on, and back. Without contiguous
  /// parameters nothing moves.
  void offload_parameters();
  void load_parameters();
  /// Gradient memory goes, and comes back zeroed.
  void release_gradients();
  void load_gradients();

 private:
  void add_buffer(Stage& stage, bool expert, const Options& options);

  Tape& tape_;
  std::vector<Buffer> buffers_;
  std::vector<Tensor> host_;
};

}  // namespace headroom::tape::megatron

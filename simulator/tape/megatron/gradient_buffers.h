#pragma once

#include <cstdint>
#include <vector>

#include "simulator/tape/megatron/stage.h"

namespace headroom::tape::megatron {

/// Where a parameter lies in its buffer, in elements.
struct BufferSlot {
  Tensor parameter;
  std::int64_t first = 0, count = 0;
  bool decayed = true;  ///< a matrix: weight decay applies, so the optimizer's first group has it
};

/// Elements [first, end) that are reduced together; each rank's optimizer has its part of each bucket.
struct Bucket {
  std::int64_t first = 0, end = 0;
};

/// One contiguous buffer of parameters (with a distributed optimizer) and one of gradients.
struct Buffer {
  bool expert = false;
  std::int64_t ranks = 1;     ///< over which the optimizer's shards run
  std::int64_t rank = 0;      ///< this one's place among them
  std::int64_t elements = 0;  ///< padding included
  Tensor parameters, gradients;
  std::vector<BufferSlot> slots;  ///< reverse order of definition
  std::vector<Bucket> buckets;
};

/// Megatron's DistributedDataParallel: the trained parameters of each virtual stage in one buffer for the
/// dense grid and one for the expert grid (only where experts are dealt out over ranks; else they lie with
/// the dense ones); parameters in FP8 have buffers of their own. Each parameter starts at a multiple of 64 elements, a bucket ends at one of lcm(ranks,
/// 128); without a distributed optimizer nothing is padded. Gradients are zeroed there and live until they
/// are released; what autograd leaves in `.grad` is added to them and goes at once. Source:
/// distributed/param_and_grad_buffer.py, optimizer/distrib_optimizer.py.
class GradientBuffers {
 public:
  struct Options {
    DType gradients = DType::fp32;
    bool contiguous_parameters = true;  ///< distributed optimizer
    std::int64_t dense_ranks = 1, expert_ranks = 1;
    std::int64_t dense_rank = 0, expert_rank = 0;
    bool overlap = false;  ///< buckets of max(40 million, a million a rank) elements in the first virtual
                           ///< stage of the first pipeline stage; else one bucket
    Stream stream = 0;  ///< on which all this is made, and gradients are added to the buffers
  };
  /// Virtual stage after virtual stage: its parameter and gradient buffers come to exist, then its
  /// parameters' own storages go one by one.
  GradientBuffers(Stage& stage, const Options& options);

  std::vector<Buffer>& buffers() { return buffers_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  bool distributed() const { return options_.contiguous_parameters; }

  /// Parameters to pinned host buffers, which are kept from the first time on, and back. Without contiguous
  /// parameters nothing moves.
  void offload_parameters();
  void load_parameters();
  /// Gradient memory goes, and comes back zeroed.
  void release_gradients();
  void load_gradients();

 private:
  static bool belongs(const Stage& stage, const Stage::Parameter& parameter, std::int32_t chunk, bool expert);
  void add_buffer(Stage& stage, std::int32_t chunk, bool expert, DType dtype);
  static bool is_shared(const Stage& stage, const std::string& name);
  void lay_out(Stage& stage, Buffer& buffer, std::int32_t chunk, bool expert, DType dtype) const;

  Tape& tape_;
  Options options_;
  std::vector<Buffer> buffers_;
  std::vector<NodeRef> accumulators_;  ///< which hooks keep
  std::vector<Tensor> host_;
};

}  // namespace headroom::tape::megatron

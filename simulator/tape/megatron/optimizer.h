#pragma once

#include <optional>
#include <vector>

#include "simulator/tape/megatron/gradient_buffers.h"

namespace headroom::tape::megatron {

/// How Megatron's optimizer keeps its states.
struct OptimizerOptions {
  /// Precision-aware: moments in this dtype, gradients used as they are, and instead of an fp32 master copy
  /// the 16 bits that bf16 parameters lack, from the first step on.
  bool precision_aware = false;
  DType moments = DType::fp32;
  bool sgd = false;         ///< one moment rather than two
  double cpu_fraction = 0;  ///< hybrid optimizer: part of the elements whose states live on the host for good
};

/// Megatron's (distributed) optimizer over gradient buffers. This rank, the first of its data-parallel group,
/// owns the first 1 / ranks of each buffer: fp32 copies of the parameters (or parts of them) there from
/// construction, made one by one through a clone in the parameters' dtype; moments from the first step.
/// Sources: optimizer/distrib_optimizer.py, optimizer/cpu_offloading/hybrid_optimizer.py.
class Optimizer {
 public:
  Optimizer(Tape& tape, GradientBuffers& buffers, const OptimizerOptions& options);

  /// Moments (and remainders) exist from here on.
  void create_states();
  /// bf16 gradients are copied to fp32, a shard at a time, unless the optimizer takes them as they are.
  void step();
  /// fp32 masters, and moments, to pageable host memory and back; those on the host for good stay.
  void move_masters(bool to_device);
  void move_moments(bool to_device);

  /// Elements of this rank's shards.
  std::int64_t elements() const;

 private:
  struct Shard {
    std::int64_t count = 0;
    bool on_host = false;  ///< for good
    Tensor parameter, gradients;
    Tensor master, average, square_average, staging;
  };
  Tensor state(const Shard& shard, DType dtype, Component component);
  void move(Tensor& tensor, bool to_device);

  Tape& tape_;
  OptimizerOptions options_;
  std::vector<Shard> shards_;
  bool states_ = false;
};

}  // namespace headroom::tape::megatron

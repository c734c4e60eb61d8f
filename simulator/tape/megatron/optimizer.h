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
  bool foreach_ =
      false;  ///< PyTorch's Adam over lists of tensors: its temporaries are as large as all of them
  bool clip = true;
  bool multi_tensor = true;  ///< apex' or TransformerEngine's kernels scale gradients in place
};

/// Megatron's (distributed) optimizer over gradient buffers. This rank owns its part of each bucket: fp32
/// copies of the parameters (or parts of them) there from construction, made one by one through a clone in
/// the parameters' dtype; moments from the first step. Matrices come before vectors (which do not decay),
/// dense parameters before experts; a distributed optimizer follows the buffers, another the model's order.
/// Sources: optimizer/distrib_optimizer.py, optimizer.py, clip_grads.py, cpu_offloading/hybrid_optimizer.py.
class Optimizer {
 public:
  Optimizer(Tape& tape, GradientBuffers& buffers, const OptimizerOptions& options);

  /// Moments (and remainders) exist from here on.
  void create_states();
  /// bf16 gradients are copied to fp32, shard by shard, unless the optimizer takes them as they are. The
  /// copies stay until `zero_gradients`.
  void step();
  void zero_gradients();
  /// What the first of the hybrid optimizer's two builds left behind goes: Python's collector finds it late.
  void collect_garbage() { leftovers_.clear(); }
  /// fp32 masters, and moments, to pageable host memory and back; those on the host for good stay, and so do
  /// the gradients' copies.
  void move_masters(bool to_device);
  void move_moments(bool to_device);

  /// Elements of this rank's shards.
  std::int64_t elements() const;

 private:
  struct Shard {
    std::int64_t count = 0;
    bool on_host = false;  ///< for good
    Tensor parameter, gradients, gradient;
    Tensor master, host_master, average, square_average, staging;
  };
  void add_shards(const GradientBuffers& from, const Buffer& buffer, bool decayed);
  void build_on_host(const GradientBuffers& buffers, bool expert, std::size_t first_shard);
  void build_masters();
  void clip_gradients();
  Tensor state(const Shard& shard, DType dtype, Component component);
  void move(Tensor& tensor, bool to_device);

  Tape& tape_;
  OptimizerOptions options_;
  std::vector<Shard> shards_;
  std::vector<Tensor> leftovers_;
  bool states_ = false;
};

}  // namespace headroom::tape::megatron

#pragma once

#include <cstdint>
#include <vector>

#include "simulator/tape/core/engine.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// What the optimizer is told.
struct LowLevelZeroOptions {
  int stage = 2;                     ///< 1: optimizer states are spread, 2: gradients too
  std::int64_t ranks = 1;
  DType dtype = DType::fp16;         ///< of weights and gradients
  bool loss_scaling = true;          ///< gradients are looked through for infinities before each step
  bool clips = false;
  bool offload = false;              ///< masters, their gradients and Adam's states on the host
  std::int64_t bucket = 12 << 20;    ///< elements of gradients that are reduced at once
  bool clones_parts = false;         ///< releases up to 0.3: every rank's part of a gradient is cloned first
  Stream reduce_stream = 1;
};

/// ColossalAI's LowLevelZeroOptimizer: weights stay whole where they are; of every parameter, padded to equal
/// parts, this rank has a fp32 part with its Adam states.
///
///   backward  gradients that fill a bucket are joined in one tensor (since 0.4 at once; before, every rank's
///             part of each is cloned, then joined rank by rank, then once more: three times their size at the
///             widest), reduced on a stream of its own into this rank's part (stage 2) or in place (1);
///             those of later micro-batches are added (before 0.4 they only wait for the step)
///   step      every part once more in fp32, the update in place, then parameter by parameter the parts narrowed
///             and gathered into the weights
///
/// Follows colossalai/zero/low_level/low_level_optim.py (0.3.1 and 0.5.1).
class LowLevelZero {
 public:
  LowLevelZero(Model& model, Engine& engine, const LowLevelZeroOptions& options);

  /// optimizer.backward(loss).
  void backward(const Tensor& loss);
  /// optimizer.step() and zero_grad(); `overflow`: infinities were found, the update is skipped.
  void step(bool overflow);
  void create_states();

 private:
  struct Parameter {
    Tensor slot;                 ///< the module's attribute
    std::int64_t elements = 0;   ///< padded to equal parts
    Tensor master, average, square_average;
    Tensor gradient;             ///< of this rank's part, reduced
    Tensor wide;                 ///< ... in fp32, in a step
  };
  std::int64_t part(const Parameter& p) const { return p.elements / options_.ranks; }
  void gradient_ready(std::size_t parameter);
  void reduce();
  Tensor joined_by_parts();
  Tensor joined();
  void take(const Tensor& reduced);
  void check_overflow();
  void widen_gradients();
  void make_states(Parameter& parameter);
  void gather_weights();
  void gather_one(Parameter& parameter);
  void gather_bucket(std::vector<Tensor>& narrowed, std::int64_t elements);

  Tape& tape_;
  Engine& engine_;
  LowLevelZeroOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<std::size_t> waiting_;  ///< whose gradients lie in the bucket
  std::int64_t in_bucket_ = 0;
  std::vector<Tensor> parts_;         ///< gradients, or their parts, from the joining to the reduction
  std::vector<Tensor> later_;         ///< up to 0.3: later micro-batches' reduced gradients, until the step
};

}  // namespace headroom::tape

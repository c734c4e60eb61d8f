#pragma once

#include <cstdint>

#include "simulator/engine/account.h"
#include "simulator/engine/generation/model_parts.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/time/seconds.h"

namespace headroom::engine {

/// Seconds of an engine's steps on one GPU of a replica.
///
/// A decoding step: the scheduler and Python on the host; then each layer reads the weights that the batch
/// needs (products by the memory or the matrix curve, whichever is longer), the cache of all running
/// sequences, and launches its small kernels; two all-reduces a layer over tensor ranks; the head and
/// sampling. CUDA graphs leave nothing of a step's dispatch; without them every kernel is dispatched as eager
/// PyTorch does, and the longer of host and device counts. Engines that schedule a step while the one before
/// runs hide the host.
class TokenSteps {
 public:
  TokenSteps(const Engine& engine, const Account& account, const Hardware& hardware,
             std::int64_t gpus_per_node);

  /// One token of each of `running` sequences with `context` tokens on average.
  Seconds decode(double running, double context) const;
  /// Reading `tokens` tokens of prompts of `length` each.
  Seconds prefill(double tokens, double length) const;

 private:
  /// An all-reduce over tensor ranks of as many tokens' hidden states.
  double reduction(double tokens) const;
  double products(double tokens) const;
  double attention(double running, double context) const;
  double sampling(double running) const;
  double small_kernels() const;
  double dispatch() const;

  const Engine& engine_;
  const Account& account_;
  const Hardware& hardware_;
  std::int64_t gpus_per_node_;
  ModelParts parts_;
  double ranks_, rate_, layers_, hidden_, vocabulary_;
  double weight_bytes_ = 2;  ///< of a parameter on the device
  double cached_bytes_ = 0;  ///< of a token in the cache of this GPU
  double products_a_layer_ = 4, kernels_a_layer_ = 0;
  double adapted_a_layer_ = 0;  ///< products with adapters beside them
};

}  // namespace headroom::engine

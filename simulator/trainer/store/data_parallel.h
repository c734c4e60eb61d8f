#pragma once

#include <vector>

#include "simulator/trainer/store/unsharded.h"

namespace headroom::trainer {

/// A whole model on every GPU under PyTorch's DistributedDataParallel: weights are sent out in buckets of 250 MiB, two
/// at a time; then gradients get buckets, as large as all that the model could train, and are copied into them to be
/// reduced (gradient_as_bucket_view is off). `build_optimizer` wraps, whether the role is trained or not; buckets do
/// not move with the weights.
///
/// A reducer that looks for unused parameters (`finds_unused`) has buckets of 25 MiB. Another has one for all until the
/// forward after the first reduction makes them anew, of 25 MiB, in the order in which gradients came. NCCL's process
/// group keeps what it reduced until its next collective (since PyTorch 2.8), so that until the first bucket of that
/// backward is full old and new ones are there.
class DataParallelStore : public UnshardedStore {
 public:
  using UnshardedStore::UnshardedStore;

  void build_optimizer() override;
  void begin_micro_batch(bool last) override;

 private:
  enum class Buckets { first, reduced, final };

  void send_weights();
  void make_buckets(bool limited);
  void watch_first_bucket();

  std::vector<tape::Tensor> buckets_, kept_;
  tape::Tensor closes_first_;  ///< the parameter that fills the first bucket
  tape::Tensor used_;          ///< which parameters were used, a number each
  Buckets state_ = Buckets::first;
};

}  // namespace headroom::trainer

#pragma once

#include <vector>

#include "simulator/trainer/store/unsharded.h"

namespace headroom::trainer {

/// A whole model on every GPU under PyTorch's DistributedDataParallel: beside what UnshardedStore holds, the reducer's
/// buckets, as large as all that the model could train, from the wrapping on. Gradients are copied into them to be
/// reduced (gradient_as_bucket_view is off). `build_optimizer` wraps, whether the role is trained or not; buckets do
/// not move with the weights.
class DataParallelStore : public UnshardedStore {
 public:
  using UnshardedStore::UnshardedStore;

  void build_optimizer() override;

 private:
  std::vector<tape::Tensor> buckets_;
};

}  // namespace headroom::trainer

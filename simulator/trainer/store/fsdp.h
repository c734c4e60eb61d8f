#pragma once

#include <memory>
#include <vector>

#include "simulator/tape/sharding/runtime.h"
#include "simulator/trainer/store/unsharded.h"

namespace headroom::trainer {

/// Weights, gradients and optimizer states spread over ranks by FSDP (1 or 2): the optimizer works on this
/// rank's shards, on the host under `cpu_offload`.
class FsdpStore : public UnshardedStore {
 public:
  using UnshardedStore::UnshardedStore;

  Status build() override;
  void begin_micro_batch(bool last) override;
  void begin_pass() override;
  void end_pass() override;
  void export_weights() override;
  void sync_weights(const WeightSync& sync) override;
  void save(unsigned parts, bool gathered) override;

 protected:
  std::vector<tape::Tensor> trainable() override;
  void clip_gradients() override;
  void move_weights(bool to_device) override;

 private:
  std::unique_ptr<tape::ShardingRuntime> runtime_;
  std::vector<tape::StateTensor> state_;  ///< between export and sync
};

}  // namespace headroom::trainer

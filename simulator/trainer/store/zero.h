#pragma once

#include <memory>

#include "simulator/tape/sharding/zero.h"
#include "simulator/trainer/store/store.h"

namespace headroom::trainer {

/// Weights, gradients and optimizer states under a DeepSpeed engine, ZeRO stage 0 to 3: the engine owns
/// backward and step. The model is made on the host; the engine brings it to the device and makes its
/// optimizer with it, so `build_optimizer` finds nothing to do; a model spread as it is built (stage 3) waits for it.
class ZeroStore : public Store {
 public:
  using Store::Store;

  Status build() override;
  void build_optimizer() override;
  bool has_optimizer() const override { return role().trained && !waits_; }
  void create_states() override { engine_->create_states(); }
  void begin_micro_batch(bool last) override {
    last_ = last;
    engine_->begin_joint_backward(last);
  }
  void backward(const tape::Tensor& loss) override { engine_->backward(loss, last_); }
  void end_joint_backward() override { engine_->end_joint_backward(); }
  void step() override;
  /// The optimizer's states with all that sleeps with them; validation refuses jobs that move weights.
  void move(unsigned parts, bool to_device) override {
    if ((parts & kOptimizer) != 0) engine_->move_states(to_device);
  }
  void save(unsigned parts, bool gathered) override;

 protected:
  bool holds_whole_weights() const override { return role().sharding.kind != ShardingKind::zero3; }

 private:
  std::unique_ptr<tape::ZeroEngine> engine_;
  bool waits_ = false;  ///< its optimizer is still to be built
  std::int64_t updates_ = 0;
  bool last_ = true;  ///< the running micro-batch completes gradients
};

}  // namespace headroom::trainer

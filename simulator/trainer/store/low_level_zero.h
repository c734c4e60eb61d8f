#pragma once

#include <memory>

#include "simulator/tape/sharding/low_level_zero.h"
#include "simulator/trainer/store/store.h"

namespace headroom::trainer {

/// Whole weights on every GPU, gradients and optimizer states under ColossalAI's LowLevelZeroOptimizer. The model is
/// made on the host and comes to the device with `build`; `build_optimizer` makes the fp32 parts. The weights of a
/// model that is only evaluated can wait on the host.
class LowLevelZeroStore : public Store {
 public:
  using Store::Store;

  Status build() override;
  void build_optimizer() override;
  bool has_optimizer() const override { return optimizer_ != nullptr; }
  void create_states() override { optimizer_->create_states(); }
  void backward(const tape::Tensor& loss) override { optimizer_->backward(loss); }
  void step() override;
  void move(unsigned parts, bool to_device) override;
  void save(unsigned parts, bool gathered) override;

 private:
  std::unique_ptr<tape::LowLevelZero> optimizer_;
  std::int64_t updates_ = 0;
};

}  // namespace headroom::trainer

#pragma once

#include <memory>
#include <vector>

#include "simulator/tape/optimizers/adamw.h"
#include "simulator/trainer/store/store.h"

namespace headroom::trainer {

/// A whole model on one GPU under a torch optimizer: plain PyTorch, with master copies in fp32 and a gradient
/// scaler where the role has them.
class UnshardedStore : public Store {
 public:
  using Store::Store;

  Status build() override;
  void build_optimizer() override;
  bool has_optimizer() const override { return optimizer_ != nullptr; }
  void create_states() override;
  void backward(const tape::Tensor& loss) override;
  void step() override;
  void clip() override;
  void update() override;
  void move(unsigned parts, bool to_device) override;
  void release(unsigned parts) override;
  void save(unsigned parts, bool gathered) override;

 protected:
  /// What the optimizer works on, master copies apart.
  virtual std::vector<tape::Tensor> trainable();
  virtual void clip_gradients();
  virtual void move_weights(bool to_device);

  std::unique_ptr<tape::AdamW> optimizer_;

 private:
  void build_masters(std::vector<tape::Tensor>& optimized);
  void gradients_to_masters();
  tape::Tensor scaled(const tape::Tensor& loss);
  void unscale_gradients();

  std::vector<tape::Tensor> masters_;  ///< fp32 copies that the optimizer works on
  tape::Tensor scale_, growth_;        ///< of a gradient scaler, from the first loss on
  tape::Tensor overflowed_;            ///< ... from unscaling to the end of the optimizer's step
};

}  // namespace headroom::trainer

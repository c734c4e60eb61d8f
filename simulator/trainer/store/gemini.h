#pragma once

#include <memory>

#include "simulator/tape/sharding/gemini.h"
#include "simulator/trainer/store/store.h"

namespace headroom::trainer {

/// A model in Gemini's chunks, trained or not. `build` makes the whole model on the device (or, built on the host,
/// nothing there yet); `build_optimizer` packs it into chunks.
class GeminiStore : public Store {
 public:
  using Store::Store;

  Status build() override;
  void build_optimizer() override;
  bool has_optimizer() const override { return gemini_ != nullptr && role().trained; }
  void create_states() override { gemini_->create_states(); }
  void backward(const tape::Tensor& loss) override { gemini_->backward(loss); }
  void step() override;
  void move(unsigned /*parts*/, bool /*to_device*/) override {}  // validation refuses jobs that move its weights
  void save(unsigned parts, bool gathered) override;

 private:
  std::unique_ptr<tape::Gemini> gemini_;
  std::int64_t updates_ = 0;
};

}  // namespace headroom::trainer

#include "simulator/tape/generate/layer_repeats.h"

#include "simulator/tape/modules/model.h"

namespace headroom::tape {

void LayerRepeats::start(Tape& tape, Repetition* repetition, KvCache* cache, int layers) {
  tape_ = &tape;
  repetition_ = layers > kFirst + 2 ? repetition : nullptr;
  cache_ = cache;
  layers_ = layers;
  first_ = kFirst;
  period_ = 0;
}

void LayerRepeats::stop() {
  if (repetition_ != nullptr) repetition_->stop();
  repetition_ = nullptr;
}

/// Before layer `index`, when the layer before has let go of its input.
void LayerRepeats::watch(int index) {
  if (index > first_ && repetition_->closed()) {
    period_ = index - first_;
  } else if (index == kFirst || index == first_ + kLongest) {
    first_ = index;
    repetition_->begin();
  }
}

Tensor LayerRepeats::layer(int index, const Tensor& hidden, const std::function<Tensor()>& run) {
  if (period_ == 0) watch(index);
  const int place = period_ > 0 ? (index - first_) % period_ : 0;
  if (period_ == 0 || index - place + period_ > layers_) return run();
  leave_out(place, index);
  return hidden;
}

void LayerRepeats::leave_out(int place, int index) {
  repetition_->apply(static_cast<std::size_t>(place));
  cache_->grow(*tape_, static_cast<std::size_t>(index));
  if (place == period_ - 1) repetition_->apply(static_cast<std::size_t>(period_));
}

}  // namespace headroom::tape

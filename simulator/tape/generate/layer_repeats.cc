#include "simulator/tape/generate/layer_repeats.h"

#include "simulator/tape/modules/model.h"

namespace headroom::tape {

void LayerRepeats::start(Tape& tape, Repetition* repetition, KvCache* cache, int layers) {
  tape_ = &tape;
  repetition_ = layers >= kFirst + 2 * kPeriod ? repetition : nullptr;
  cache_ = cache;
  layers_ = layers;
  proved_ = false;
}

Tensor LayerRepeats::layer(int index, const Tensor& hidden, const std::function<Tensor()>& run) {
  if (index == kFirst) repetition_->begin();
  // The layer before lets go of its input only when its caller has the output: now.
  if (index == kFirst + kPeriod) proved_ = repetition_->end();
  const int place = (index - kFirst) % kPeriod;
  if (!proved_ || index - place + kPeriod > layers_) return run();
  leave_out(index);
  return hidden;
}

void LayerRepeats::leave_out(int index) {
  const auto place = static_cast<std::size_t>((index - kFirst) % kPeriod);
  repetition_->apply(place);
  cache_->grow(*tape_, static_cast<std::size_t>(index));
  if (place == kPeriod - 1) repetition_->apply(kPeriod);
}

}  // namespace headroom::tape

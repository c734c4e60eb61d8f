#include "models/architecture/architecture.h"

#include <algorithm>
#include <cassert>

namespace headroom {

const Layer& Decoder::layer(std::int64_t index) const {
  const auto after =
      std::upper_bound(groups.begin(), groups.end(), index,
                       [](std::int64_t i, const LayerGroup& group) { return i < group.first; });
  assert(after != groups.begin() && index < std::prev(after)->first + std::prev(after)->count);
  return std::prev(after)->layer;
}

const Attention& Decoder::attention() const {
  static const Attention none;
  const auto at = std::find_if(groups.begin(), groups.end(), [](const LayerGroup& group) {
    return group.layer.mixer == MixerKind::attention;
  });
  return at == groups.end() ? none : at->layer.attention;
}

std::int64_t Tensor::count() const {
  std::int64_t elements = 1;
  for (std::int64_t size : shape) elements *= size;
  return elements;
}

std::int64_t Architecture::parameters() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors)
    if (tensor.tied_to.empty() && !tensor.buffer) sum += tensor.count();
  return sum;
}

std::int64_t Architecture::trainable_parameters() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors)
    if (tensor.tied_to.empty() && !tensor.buffer && tensor.trainable) sum += tensor.count();
  return sum;
}

const Tensor* Architecture::find(std::string_view name) const {
  const auto at =
      std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
  return at == tensors.end() ? nullptr : &*at;
}

}  // namespace headroom

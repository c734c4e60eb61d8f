#include "simulator/engine/generation/model_parts.h"

#include <algorithm>
#include <cmath>

namespace headroom::engine {

ModelParts::ModelParts(const Architecture& model) {
  const Decoder& decoder = model.decoder;
  for (const Tensor& tensor : model.tensors) {
    double times = 1;
    const LayerGroup* group = nullptr;
    if (tensor.place == Place::layer && tensor.layer >= 0) {
      for (const LayerGroup& one : decoder.groups)
        if (one.first == tensor.layer) group = &one;
      if (group == nullptr) continue;  // as the first of its group
      times = static_cast<double>(group->count);
    }
    if (!tensor.tied_to.empty() || tensor.buffer || tensor.place == Place::vision) continue;
    const double count = times * static_cast<double>(tensor.count());
    if (tensor.expert == -1 || group == nullptr) {
      (tensor.role == TensorRole::embedding && !decoder.tied_embeddings ? table_ : everywhere_) += count;
      tensors_ += times;
      continue;
    }
    const Mlp& mlp = group->layer.mlp;
    const auto experts = static_cast<double>(std::max<std::int64_t>(1, mlp.experts));
    const auto chosen = static_cast<double>(mlp.experts_per_token);
    auto known = std::find_if(experts_.begin(), experts_.end(), [&](const Experts& one) {
      return one.experts == experts && one.chosen == chosen;
    });
    if (known == experts_.end()) known = experts_.insert(known, {experts, chosen, 0});
    known->parameters += count;
    routed_ += count;
    const double parts = times * (tensor.expert == -2 ? experts : 1);
    tensors_ += parts;
    routed_tensors_ += parts;
  }
}

double ModelParts::met(double tokens) const {
  double out = everywhere_;
  for (const Experts& one : experts_)
    out += one.parameters * -std::expm1(tokens * std::log1p(-std::min(0.999999, one.chosen / one.experts)));
  return out;
}

}  // namespace headroom::engine

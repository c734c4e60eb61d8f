#include "simulator/tape/megatron/elementary.h"
#include "simulator/tape/megatron/layer.h"

namespace headroom::tape::megatron {

Tensor mlp(Context& c, const Layer& layer, const LayerWeights& w, const std::string& prefix,
           const NormWeights& norm, Arg x) {
  const Tensor weight = w(prefix + "linear_fc1.weight");
  const Tensor bias = w(prefix + "linear_fc1.bias");
  Tensor wide =
      norm.present() ? norm_linear(c, x, norm, weight, bias) : linear(c, x, weight, bias, Cut::column);
  Tensor active =
      activation(c, std::move(wide), layer.mlp.kind != MlpKind::plain && !layer.mlp.plain_experts, {});
  return linear(c, std::move(active), w(prefix + "linear_fc2.weight"), w(prefix + "linear_fc2.bias"),
                Cut::row);
}

}  // namespace headroom::tape::megatron

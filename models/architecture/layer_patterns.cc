#include "models/architecture/layer_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "models/architecture/blocks.h"

namespace headroom {

std::vector<LayerGroup> read_sliding_layers(Config& config, std::int64_t layers, const Layer& layer,
                                            const SlidingRule& rule) {
  const auto types = config.words("layer_types");
  if (types && static_cast<std::int64_t>(types->size()) != layers) {
    config.reject("layer_types", fmt::format("expected one type for each of the {} layers, found {}", layers,
                                             types->size()));
    return equal_layers(layers, layer);
  }
  if (!config.status()) return equal_layers(layers, layer);
  return grouped_layers(layers, [&](std::int64_t i) {
    bool slides = rule.slides(i);
    if (types) {
      const std::string& type = (*types)[static_cast<size_t>(i)];
      slides = type == "sliding_attention";
      if (!slides && type != "full_attention")
        config.reject("layer_types", "expected full_attention or sliding_attention, found " + type);
      if (slides && rule.window == 0)
        config.reject("sliding_window", "expected a size for the layers that slide, found none");
    }
    Layer next = layer;
    next.attention.sliding_window = slides ? rule.window : 0;
    return next;
  });
}

void replace_sparse_layers(Config& config, Decoder& decoder, const Mlp& experts) {
  const std::int64_t step = config.size("decoder_sparse_step", 1);
  const auto dense = config.sizes("mlp_only_layers").value_or(std::vector<std::int64_t>{});
  if (experts.experts == 0 || decoder.groups.empty()) return;
  const Decoder before = decoder;
  decoder.groups = grouped_layers(decoder.layers, [&](std::int64_t i) {
    Layer layer = before.layer(i);
    const bool listed = std::find(dense.begin(), dense.end(), i) != dense.end();
    if (!listed && (i + 1) % step == 0) layer.mlp = experts;
    return layer;
  });
}

SlidingRule qwen_sliding(Config& config) {
  if (!config.flag("use_sliding_window", false)) return {};
  return {.window = config.count("sliding_window", 4096), .first = config.count("max_window_layers", 28)};
}

}  // namespace headroom

#pragma once

#include <cstdint>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/architecture/config.h"

namespace headroom {

/// Which layers attend to a window only, when the config's `layer_types` does not say.
struct SlidingRule {
  std::int64_t window = 0;      ///< tokens; 0: no layer slides
  std::int64_t first = 0;       ///< the first layer that may slide (Qwen2's max_window_layers)
  std::int64_t full_every = 0;  ///< of every so many layers the last one sees all (Gemma 3: 6); 0: none does

  bool slides(std::int64_t layer) const {
    return window > 0 && layer >= first && (full_every == 0 || (layer + 1) % full_every != 0);
  }
};

/// Equal layers but for their window: `layer_types` decides (`sliding_attention`, `full_attention`, one a
/// layer), else the rule.
std::vector<LayerGroup> read_sliding_layers(Config& config, std::int64_t layers, const Layer& layer,
                                            const SlidingRule& rule);

/// Gives `experts` to the layers that Qwen's keys make sparse: every `decoder_sparse_step`-th (each, by
/// default), but those in `mlp_only_layers`. The others keep their dense MLP.
void replace_sparse_layers(Config& config, Decoder& decoder, const Mlp& experts);

/// Qwen's rule: `sliding_window` counts only with `use_sliding_window`, from `max_window_layers` on.
SlidingRule qwen_sliding(Config& config);

}  // namespace headroom

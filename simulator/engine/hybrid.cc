#include "simulator/engine/hybrid.h"

#include <algorithm>
#include <array>

namespace headroom {
namespace {

/// Heads are widened to one of the sizes that kernels exist for.
std::int64_t padded_head(std::int64_t dim) {
  for (const std::int64_t size : {32, 64, 128})
    if (dim <= size) return size;
  return dim;
}

}  // namespace

bool has_hybrid_kernels(const Architecture& model) {
  constexpr auto kFamilies = std::to_array<std::string_view>({"bloom", "gpt_neox", "gptj", "llama", "opt"});
  return std::find(kFamilies.begin(), kFamilies.end(), model.family) != kFamilies.end();
}

Bytes hybrid_workspace(const Engine& engine) {
  if (engine.kind != EngineKind::hybrid || engine.model == nullptr || !has_hybrid_kernels(*engine.model)) return 0;
  const Decoder& decoder = engine.model->decoder;
  const Attention& attention = decoder.layer(0).attention;
  const std::int64_t rows = engine.max_sequences, tokens = engine.max_length, ranks = engine.tensor;
  const std::int64_t width = attention.heads * padded_head(attention.head_dim);
  // Families whose positions lie in the scores (BLOOM) keep keys and values in tensors instead.
  const bool own_cache = engine.model->family != "bloom";
  const std::int64_t hidden = 10 * width * rows;
  const std::int64_t scores = rows * (attention.heads / ranks) * tokens;
  const std::int64_t cache = own_cache ? decoder.layers * rows * (width / ranks) * 2 : 0;
  return (hidden + scores + cache) * tokens * element_size(engine.weights);
}

}  // namespace headroom

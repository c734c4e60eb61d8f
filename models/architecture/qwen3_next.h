#pragma once

#include <cstdint>
#include <string_view>

#include "models/architecture/blocks.h"

/// What Qwen3-Next and Qwen3.5 share: three layers of Gated DeltaNet, then one of gated attention.
namespace headroom {

/// What Transformers takes for a value that the config leaves out.
struct QwenHybrid {
  Defaults defaults;
  ExpertDefaults experts{};        ///< `experts` 0: dense
  std::int64_t shared_hidden = 0;  ///< of the shared expert
  bool fused_projection = false;   ///< DeltaNet's inputs in two linears rather than four
};

/// The decoder out of `config` (the text's own section where there is one).
void describe_qwen_hybrid(Config& config, Architecture& model, const QwenHybrid& family);

/// The decoder's tensors under `body`, and the head.
void write_qwen_hybrid(TensorWriter& out, std::string_view body);

}  // namespace headroom

#pragma once

#include <cstdint>

#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// How Transformers' `generate` is called.
struct SampleOptions {
  std::int64_t new_tokens = 0;  ///< min_new_tokens = max_new_tokens: every sequence reaches it
  bool begin_token = true;      ///< the generation config has one (Llama, OPT, GPT-2; not Qwen2)
};

/// Transformers' `generate(do_sample=True, top_k=0, use_cache=True)` with a mask of ones: prefill, then one
/// token a forward with a growing cache, both length processors, sampling and stop checks, as `_sample` holds
/// and drops its tensors. `prompts` [B,P] stays the caller's; returns the sequences [B,P+new_tokens] int64.
Tensor sample(Model& model, const Tensor& prompts, const SampleOptions& options);

}  // namespace headroom::tape

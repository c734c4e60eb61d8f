#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// What `return_dict_in_generate` hands back beside the sequences.
struct SampleOutput {
  std::vector<Tensor> scores;  ///< [B,V] fp32 of each token, as they were drawn from
  KvCache cache;
};

/// How Transformers' `generate` is called.
struct SampleOptions {
  std::int64_t new_tokens = 0;     ///< min_new_tokens = max_new_tokens: every sequence reaches it
  bool begin_token = true;         ///< the generation config has one (Llama, OPT, GPT-2; not Qwen2)
  bool end_token = true;           ///< the generation config has one: rows that reached it are padded
  bool synchronized = false;       ///< ranks tell each other before each token whether one is not done
  bool greedy = false;             ///< do_sample=False: the highest score, not a drawn one
  bool temperature = false;        ///< other than 1: scores are divided by it, into a new tensor
  bool length_processors = true;   ///< a minimum length keeps the end token away: two scores' copies a token
  SampleOutput* output = nullptr;  ///< scores and cache are kept there
  Tensor mask = {};                ///< [B,P] int64 or bool of the caller; undefined: made here, of ones
  std::function<Tensor(const ModelInput&)> forward = {};  ///< in place of the model's own: wrapped
  /// A forward that is wrapped, or has hooks, leaves gathered what the one before it left: each token is as the last.
  bool even = false;
  bool padded = false;             ///< the mask has zeros
  bool whole_logits = false;       ///< the first forward returns the logits of every position
  bool keeps_last_output = false;  ///< a forward's logits and cache live until the next one has returned: a cache
                                   ///< that grows by concatenation is there twice
  bool top_k = false;              ///< all but the k highest scores are masked, in a new tensor
  bool weights_on_host = false;  ///< unless gathered: a forward's inputs go there, and come back as it begins
};

/// Transformers' `generate(top_k=0, use_cache=True)`: prefill, then one token a forward with a growing cache,
/// length processors, sampling and stop checks, as `_sample` holds and drops its tensors. `prompts` [B,P]
/// stays the caller's; returns the sequences [B,P+new_tokens] int64.
///
/// Of more than 4096 tokens each `token_stride`-th is run, and the cache grows by what lies between at once: its
/// blocks, whose segments come in steps of 2 MiB, then take nearly the same segments, in a bounded time.
Tensor sample(Model& model, const Tensor& prompts, const SampleOptions& options);

/// Tokens of which one is run; 1 up to 4096.
std::int64_t token_stride(std::int64_t new_tokens);

}  // namespace headroom::tape

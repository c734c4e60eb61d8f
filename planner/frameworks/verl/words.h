#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

namespace headroom::verl {

/// Words that a key takes.
using Words = std::span<const std::string_view>;

// What verl or the library behind it takes, and a program covers. Other words are not refused, since a
// release or a plug-in may know them, but leave the verdict undetermined. An empty word stands for none.

inline constexpr auto kEstimators = std::to_array<std::string_view>(
    {"gae", "grpo", "grpo_passk", "grpo_vectorized", "reinforce_plus_plus", "reinforce_plus_plus_baseline",
     "remax", "rloo", "rloo_vectorized", "opo", "gpg", "gdpo", "optimal_token_baseline",
     "tir_optimal_token_baseline", "none"});
inline constexpr auto kModelEngines = std::to_array<std::string_view>({"dp", "fsdp", "megatron"});
inline constexpr auto kAttentions =
    std::to_array<std::string_view>({"flash_attention_2", "flash_attention_3", "sdpa", "eager"});
inline constexpr auto kLoadFormats = std::to_array<std::string_view>(
    {"auto", "safetensors", "pt", "hf", "dtensor", "dummy", "dummy_hf", "megatron", "dummy_dtensor",
     "dummy_megatron", "npcache", "mistral", "dummy_local"});
inline constexpr auto kQuantizations = std::to_array<std::string_view>({"", "fp8"});
inline constexpr auto kCacheTypes =
    std::to_array<std::string_view>({"", "auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"});
inline constexpr auto kFsdpOptimizers =
    std::to_array<std::string_view>({"", "Adam", "AdamW", "SGD", "Adam8bit", "AdamW8bit"});
inline constexpr auto kMegatronOptimizers = std::to_array<std::string_view>({"", "adam", "sgd"});
inline constexpr auto kOptimizerLibraries =
    std::to_array<std::string_view>({"torch.optim", "torchao.optim", "bitsandbytes.optim"});
inline constexpr auto kContextExchanges = std::to_array<std::string_view>({"", "p2p", "a2a", "all_gather"});
inline constexpr auto kLayers = std::to_array<std::string_view>({"transformer_engine", "local"});
inline constexpr auto kDispatchers = std::to_array<std::string_view>({"alltoall", "allgather", "flex"});
inline constexpr auto kFp8Formats = std::to_array<std::string_view>({"", "e4m3", "hybrid"});
/// TransformerEngine's kernels that keep no scores (megatron/core/transformer/enums.py: AttnBackend).
inline constexpr auto kMegatronAttentions = std::to_array<std::string_view>({"", "auto", "flash", "fused"});

// What these take is fixed.
inline constexpr auto kRecomputed = std::to_array<std::string_view>(
    {"core_attn", "mlp", "moe", "moe_act", "shared_experts", "layernorm", "mla_up_proj"});
inline constexpr auto kSaved = std::to_array<std::string_view>({"model", "optimizer", "extra", "hf_model"});

inline bool is_one_of(std::string_view word, Words words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// "a, b, c", for a message.
inline std::string listed(Words words) {
  std::string out;
  for (const std::string_view word : words)
    if (!word.empty()) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

}  // namespace headroom::verl

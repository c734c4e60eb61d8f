#pragma once

#include <gtest/gtest.h>

#include <string>

#include "models/architecture/read.h"

namespace headroom::test {

/// The model of a configuration in flow style: `{model_type: llama, hidden_size: 64, …}`.
inline Architecture model_of(const std::string& config, const ReadOptions& options = {}) {
  const auto document = parse_document(config, "config.json");
  if (!document) ADD_FAILURE() << document.error().text();
  auto model = make_architecture(document.value(), "config.json", options);
  if (!model) ADD_FAILURE() << model.error().text();
  return std::move(model).value();
}

inline Error error_of(const std::string& config) {
  const auto document = parse_document(config, "config.json");
  if (!document) return document.error();
  const auto model = make_architecture(*document, "config.json");
  return model ? Error{.message = "no error", .file = {}, .key = {}} : model.error();
}

/// Small shapes, one of each kind of attention, MLP and head that sharding distinguishes.
inline const char* const kSmallLlama =
    "{model_type: llama, vocab_size: 1000, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 8, "
    "num_attention_heads: 8, num_key_value_heads: 2}";
inline const char* const kSmallGpt2 =
    "{model_type: gpt2, vocab_size: 501, n_embd: 64, n_layer: 4, n_head: 8}";
inline const char* const kSmallDeepseek =
    "{model_type: deepseek_v3, vocab_size: 1000, hidden_size: 64, intermediate_size: 96, "
    "moe_intermediate_size: 32, "
    "num_hidden_layers: 8, num_attention_heads: 8, n_routed_experts: 16, num_experts_per_tok: 2, "
    "q_lora_rank: 24, "
    "kv_lora_rank: 16, qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 8, first_k_dense_replace: 2}";
inline const char* const kSmallQwenMoe =
    "{model_type: qwen2_moe, vocab_size: 1000, hidden_size: 64, intermediate_size: 96, "
    "moe_intermediate_size: 32, "
    "shared_expert_intermediate_size: 64, num_hidden_layers: 8, num_attention_heads: 8, num_key_value_heads: "
    "8, "
    "num_experts: 16, num_experts_per_tok: 2}";
inline const char* const kSmallGptOss =
    "{model_type: gpt_oss, vocab_size: 1000, hidden_size: 64, intermediate_size: 32, num_hidden_layers: 4, "
    "num_attention_heads: 8, num_key_value_heads: 2, head_dim: 16, num_local_experts: 8, "
    "num_experts_per_tok: 2}";
inline const char* const kSmallFalcon =
    "{model_type: falcon, vocab_size: 1000, hidden_size: 64, num_hidden_layers: 4, num_attention_heads: 8}";
inline const char* const kSmallGemma =
    "{model_type: gemma2, vocab_size: 1000, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 6, "
    "num_attention_heads: 8, num_key_value_heads: 4, head_dim: 16, sliding_window: 32}";
inline const char* const kSmallNext =
    "{model_type: qwen3_next, vocab_size: 1000, hidden_size: 64, num_hidden_layers: 8, num_attention_heads: "
    "8, "
    "num_key_value_heads: 2, head_dim: 16, linear_num_value_heads: 8, linear_num_key_heads: 4, "
    "linear_key_head_dim: 16, linear_value_head_dim: 32, num_experts: 8, num_experts_per_tok: 2, "
    "moe_intermediate_size: 32, shared_expert_intermediate_size: 64}";
inline const char* const kSmallNemotron =
    "{model_type: nemotron_h, vocab_size: 1000, hidden_size: 64, hybrid_override_pattern: 'MEM*-ME', "
    "intermediate_size: 96, num_attention_heads: 8, num_key_value_heads: 2, head_dim: 16, mamba_num_heads: "
    "8, "
    "mamba_head_dim: 16, n_groups: 4, ssm_state_size: 32, n_routed_experts: 8, num_experts_per_tok: 2, "
    "moe_intermediate_size: 32, moe_shared_expert_intermediate_size: 64, moe_latent_size: 24}";
inline const char* const kSmallModels[] = {kSmallLlama,   kSmallGpt2,   kSmallDeepseek,
                                           kSmallQwenMoe, kSmallGptOss, kSmallFalcon,
                                           kSmallGemma,   kSmallNext,   kSmallNemotron};

}  // namespace headroom::test

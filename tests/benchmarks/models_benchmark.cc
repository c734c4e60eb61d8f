#include <benchmark/benchmark.h>

#include "models/architecture/read.h"

namespace headroom {
namespace {

/// DeepSeek-V3: 61 layers, 256 experts.
const char* const kDeepseek = R"({
  "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 0,
  "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
  "initializer_range": 0.02, "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
  "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
  "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128,
  "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
  "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "original_max_position_embeddings": 4096,
                   "type": "yarn"},
  "tie_word_embeddings": false, "topk_group": 4, "torch_dtype": "bfloat16", "transformers_version": "4.33.1",
  "use_cache": true, "v_head_dim": 128, "vocab_size": 129280})";

void ReadConfigAndBuildInventory(benchmark::State& state) {
  for (auto _ : state) {
    const auto document = parse_document(kDeepseek, "config.json");
    auto model = make_architecture(*document, "config.json");
    benchmark::DoNotOptimize(model->tensors.data());
  }
}
BENCHMARK(ReadConfigAndBuildInventory)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace headroom

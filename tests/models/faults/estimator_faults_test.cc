// What other estimators got wrong about parameters, KV caches and sharding, each with the value found right
// in the public report that its comment names.
#include <gtest/gtest.h>

#include "models/kv_cache/kv_cache.h"
#include "models/presets/presets.h"
#include "models/sharding/megatron.h"
#include "tests/models/support/models.h"

namespace headroom {
namespace {

Architecture preset(const std::string& name) {
  const auto config = find_preset(name);
  if (!config) {
    ADD_FAILURE() << config.error().text();
    return {};
  }
  return make_architecture(*config, name).value();
}

double gib(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

KvCache unblocked() {
  return {.dtype = DType::bf16, .block = 1};
}

std::int64_t weight_bytes(const Architecture& model) {
  Bytes sum = 0;
  for (const Tensor& tensor : model.tensors)
    if (tensor.tied_to.empty() && !tensor.buffer) sum += bytes_of(tensor.dtype, tensor.count());
  return sum;
}

// github.com/NVIDIA/Megatron-LM/issues/4050 and 2439: routed experts were divided by TP, expert parallelism
// ignored.
TEST(EstimatorFaults, Megatron4050RoutedExpertsDivideByExpertGroupsAndAttentionByTensor) {
  const Architecture model = preset("mistralai/Mixtral-8x7B-v0.1");
  const Parallel parallel{.tensor = 4, .expert = 2, .expert_tensor = 2};
  const auto stage = megatron_stage(model, parallel, VocabularyRule::mbridge(), 0).value();
  const std::int64_t experts = 32LL * 8 * 3 * 4096 * 14336;
  EXPECT_EQ(stage.expert_elements(), experts / (2 * 2));
  const std::int64_t attention = 32LL * (2 * 4096 * 4096 + 2 * 1024 * 4096);
  const std::int64_t whole_on_each = 32LL * (8 * 4096 + 2 * 4096) + 4096;  // routers and norms
  EXPECT_EQ(stage.dense_elements(), attention / 4 + 2 * 32000 * 4096 / 4 + whole_on_each);
}

TEST(EstimatorFaults, Megatron2439ExpertsFollowTheTensorGroupUnlessExpertTensorIsSet) {
  const Architecture model = preset("mistralai/Mixtral-8x7B-v0.1");
  const auto stage = megatron_stage(model, {.tensor = 4, .expert = 2}, VocabularyRule::mbridge(), 0).value();
  EXPECT_EQ(stage.expert_elements(), 32LL * 8 * 3 * 4096 * 14336 / 8);
}

// github.com/NVIDIA/Megatron-LM/issues/1475: shapes of multi-head attention were used for latent attention.
TEST(EstimatorFaults, Megatron1475LatentAttentionHasLowRankProjections) {
  const Architecture model = preset("deepseek-ai/DeepSeek-V3");
  std::int64_t attention = 0;
  for (const Tensor& tensor : model.tensors)
    if (tensor.layer == 10 && tensor.name.find("self_attn") != std::string::npos) attention += tensor.count();
  EXPECT_EQ(attention,
            7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 + 512 * 128 * 256 + 128 * 128 * 7168);
}

// github.com/vllm-project/vllm/pull/29736: 2 × hidden a token and layer, four times too much for 8 of 32
// heads.
TEST(EstimatorFaults, Vllm29736GroupedQueryHeadsShareKeysAndValues) {
  const Architecture model = preset("meta-llama/Meta-Llama-3-8B");
  EXPECT_EQ(kv_bytes_per_token(model.decoder, {}), 32 * 2 * 8 * 128 * 2);
}

// github.com/jranaraki/vllm-fit/issues/2: eight times too much even without grouped heads.
TEST(EstimatorFaults, VllmFit2FullHeadsTakeTwoVectorsALayer) {
  const Architecture model = preset("meta-llama/Llama-2-7b-hf");
  EXPECT_EQ(kv_bytes_per_token(model.decoder, {}), 32 * 2 * 32 * 128 * 2);
}

// github.com/unslothai/unsloth/pull/4757: one formula for all, wrong in both directions; GiB at the full
// context.
TEST(EstimatorFaults, Unsloth4757GemmaSlidesInFiveLayersOfSix) {
  EXPECT_NEAR(gib(kv_bytes(preset("google/gemma-3-27b-it").decoder, 131072, unblocked())), 10.41, 0.005);
}
TEST(EstimatorFaults, Unsloth4757DeepseekKeepsLatents) {
  EXPECT_NEAR(gib(kv_bytes(preset("deepseek-ai/DeepSeek-V3.1").decoder, 163840, unblocked())), 10.72, 0.005);
}
TEST(EstimatorFaults, Unsloth4757KimiKeepsLatents) {
  const Architecture model = test::model_of(
      "{model_type: deepseek_v3, vocab_size: 163840, hidden_size: 7168, num_hidden_layers: 61, "
      "num_attention_heads: 64, n_routed_experts: 384, first_k_dense_replace: 1}");
  EXPECT_NEAR(gib(kv_bytes(model.decoder, 262144, unblocked())), 17.16, 0.005);
}
TEST(EstimatorFaults, Unsloth4757QwenStatesItsHeadSize) {
  EXPECT_NEAR(gib(kv_bytes(preset("Qwen/Qwen3-0.6B").decoder, 40960, unblocked())), 4.38, 0.006);
}

// github.com/LMCache/LMCache/pull/694: hidden / heads for Qwen3; latent attention without its rotary key.
TEST(EstimatorFaults, LmCache694HeadSizeIsTheConfigs) {
  EXPECT_EQ(preset("Qwen/Qwen3-0.6B").decoder.layer(0).attention.head_dim, 128);
}
TEST(EstimatorFaults, LmCache694LatentsComeWithTheRotaryKey) {
  EXPECT_EQ(kv_bytes_per_token(preset("deepseek-ai/DeepSeek-V3").decoder, {}), 61 * (512 + 64) * 2);
}

// github.com/gpustack/gguf-parser-go/issues/8: 321 GiB of keys and values at 65,536 tokens.
TEST(EstimatorFaults, GgufParser8LatentsOfALongContextAreFourGib) {
  EXPECT_NEAR(gib(kv_bytes(preset("deepseek-ai/DeepSeek-V3").decoder, 65536, unblocked())), 4.289, 0.001);
}

// github.com/ollama/ollama/pull/17201: keys and values from embedding length over heads, for all layers
// alike.
TEST(EstimatorFaults, Ollama17201KeyAndValueSizesAreTheirOwn) {
  const Attention attention = preset("deepseek-ai/DeepSeek-V2-Lite").decoder.layer(0).attention;
  EXPECT_EQ(attention.head_dim, 192);
  EXPECT_EQ(attention.value_head_dim, 128);
  EXPECT_EQ(kv_bytes_per_token(attention, {}), (512 + 64) * 2);
}

// github.com/huggingface/accelerate/issues/3379: halved again because the config already said bfloat16.
TEST(EstimatorFaults, Accelerate3379DtypeOfTheConfigIsCountedOnce) {
  const Architecture model = test::model_of(
      "{model_type: llama, vocab_size: 128256, hidden_size: 8192, intermediate_size: 28672, "
      "num_hidden_layers: 80, "
      "num_attention_heads: 64, num_key_value_heads: 8, torch_dtype: bfloat16}");
  EXPECT_EQ(weight_bytes(model), 2 * 70'553'706'496);
}

// github.com/AlexsJones/llmfit/issues/230: only the active experts' weights were counted.
TEST(EstimatorFaults, LlmFit230AllExpertsAreResident) {
  EXPECT_EQ(preset("Qwen/Qwen3-235B-A22B").parameters(), 235'093'634'560);
}

// Tied embeddings counted twice, a padded vocabulary not at all: the common faults behind wrong totals.
TEST(EstimatorFaults, TiedEmbeddingsCountOnce) {
  EXPECT_EQ(preset("Qwen/Qwen2.5-0.5B").parameters(), 494'032'768);
}
TEST(EstimatorFaults, VocabularyIsPaddedForEachTensorRank) {
  EXPECT_EQ(padded_vocabulary(50257, VocabularyRule::megatron(), 8).value(), 51200);
  EXPECT_EQ(padded_vocabulary(50257, VocabularyRule::mbridge(128), 8).value(), 50304);
  EXPECT_EQ(padded_vocabulary(50257, VocabularyRule::engine(), 8).value(), 50304);
}

}  // namespace
}  // namespace headroom

#include "simulator/engine/weights.h"

#include <gtest/gtest.h>

#include "tests/simulator/engine/engine_model.h"

namespace headroom::engine {
namespace {

using test::engine_of;
using test::gib;

double weights(const Engine& engine, const Stage& stage = {}) {
  return gib(stage_weights(engine, stage).value());
}

TEST(StageWeights, HoldTheTableOfRotaryAngles) {
  const Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  EXPECT_NEAR(weights(engine), 14.99, 0.006);  // as logs print
  EXPECT_NEAR(static_cast<double>(stage_weights(engine, {}).value() - 2 * engine.model->parameters()),
              131'072 * 128 * 2, 1024);  // beside the model's own frequencies
  // Positions scaled by eight: half a GiB.
  EXPECT_NEAR(weights(engine_of("google/gemma-3-4b-it")), 8.58, 0.08);
}

TEST(StageWeights, LatentAttentionKeepsItsAbsorbedProjections) {
  const Engine engine = engine_of("deepseek-ai/DeepSeek-V2-Lite");
  const Bytes absorbed = 27 * 16 * (128 + 128) * 512 * 2;
  const Bytes table = engine.model->decoder.max_positions * 64 * 4;
  EXPECT_NEAR(static_cast<double>(stage_weights(engine, {}).value() - 2 * engine.model->parameters()),
              static_cast<double>(absorbed + table), 1024);
}

TEST(StageWeights, StagesCarryEmbeddingAndHead) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  engine.pipeline = 4;
  EXPECT_NEAR(weights(engine, {0, 4}), 4.26, 0.01);
  EXPECT_NEAR(weights(engine, {1, 4}), 3.28, 0.01);
  EXPECT_NEAR(weights(engine, {3, 4}), 4.26, 0.01);
}

TEST(StageWeights, NarrowTypesLeaveEmbeddingAndHeadAlone) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  engine.weights = DType::fp8;
  EXPECT_NEAR(weights(engine), 8.49, 0.01);
  engine.weights = DType::nf4;
  EXPECT_NEAR(weights(engine), 5.38, 0.05);  // w4a16
  Engine mixture = engine_of("Qwen/Qwen3-30B-A3B");
  EXPECT_NEAR(weights(mixture), 56.88, 0.05);
  mixture.weights = DType::fp4;  // NVFP4
  EXPECT_NEAR(weights(mixture), 16.89, 0.1);
  Engine experts = engine_of("openai/gpt-oss-20b", 2);
  experts.weights = DType::fp4;
  EXPECT_NEAR(weights(experts), 7.01, 0.1);
}

// Two pairs of factors for gate and up, one for down, of every expert: whatever the trainer adapts.
TEST(StageWeights, ExpertsHaveSlotsForAdapters) {
  Engine engine = engine_of("allenai/OLMoE-1B-7B-0924");
  engine.lora_rank = 64;
  engine.experts_take_adapters = false;
  const auto of_slot = [&] {
    engine.lora_slots = 1;
    const Bytes with = stage_weights(engine, {}).value();
    engine.lora_slots = 0;
    return with - stage_weights(engine, {}).value();
  };
  const Bytes attention = of_slot();
  EXPECT_GT(attention, 0);
  engine.experts_take_adapters = true;
  const Bytes layers = 16, experts = 64, hidden = 2048, width = 1024;
  EXPECT_EQ(of_slot() - attention, layers * experts * 64 * 2 * (2 * (hidden + width) + width + hidden));
}

// A step's embeddings of every token for every layer lie in a buffer of their own.
TEST(StageWeights, HoldAStepsEmbeddingsForEveryLayer) {
  Engine engine = engine_of("google/gemma-4-E2B-it");
  const Bytes before = stage_weights(engine, {}).value();
  engine.max_batched_tokens += 1000;
  EXPECT_EQ(stage_weights(engine, {}).value() - before, 1000 * 35 * 256 * 2);
}

TEST(StageLayers, DealWhatRemainsFromTheLastButOneBackwards) {
  using Range = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(stage_layers(28, {1, 4}), (Range{7, 14}));
  EXPECT_EQ(stage_layers(30, {0, 4}), (Range{0, 7}));
  EXPECT_EQ(stage_layers(30, {1, 4}), (Range{7, 15}));
  EXPECT_EQ(stage_layers(30, {2, 4}), (Range{15, 23}));
  EXPECT_EQ(stage_layers(30, {3, 4}), (Range{23, 30}));
}

}  // namespace
}  // namespace headroom::engine

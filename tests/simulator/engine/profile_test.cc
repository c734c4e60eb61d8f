#include "simulator/engine/profile.h"

#include <gtest/gtest.h>

#include "tests/simulator/engine/engine_model.h"

namespace headroom::engine {
namespace {

using test::engine_of;
using test::gib;
using test::h100;

/// Logs print two decimals.
constexpr double kDigit = 0.016;

double peak(const Engine& engine, const Stage& stage) {
  const ModelSizes sizes = model_sizes(engine, stage).value();
  return gib(activation_peak(engine, sizes, h100(), engine.max_batched_tokens, engine.max_sequences));
}
double peak(const Engine& engine) {
  return peak(engine, Stage{});
}

// Printed by vLLM on H100 80GB; the sampler is the peak.
TEST(Sampler, HoldsCopiesOfLogitsByItsPath) {
  EXPECT_NEAR(peak(engine_of("meta-llama/Llama-3.1-8B-Instruct")), 1.89, kDigit);  // 0.19
  EXPECT_NEAR(peak(engine_of("google/gemma-2-9b-it")), 3.65, kDigit);
  EXPECT_NEAR(peak(engine_of("Qwen/Qwen2.5-7B-Instruct", 4)), 2.21, kDigit);  // gathered whole on each rank
  Engine sorting = engine_of("meta-llama/Llama-3.1-8B-Instruct");             // 0.11
  sorting.sampler_rows_factor = 9.5;
  sorting.sampler_scratch = false;
  EXPECT_NEAR(peak(sorting), 4.76, kDigit);
}

TEST(Sampler, TakesScratchForEachMultiprocessor) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  const double with = peak(engine);
  engine.sampler_scratch = false;
  EXPECT_NEAR(with - peak(engine), 132 * 128'256 * 4.0 / (1 << 30), 1e-6);
}

TEST(Forward, HoldsGateUpProductAndFourHiddenTensors) {
  EXPECT_NEAR(peak(engine_of("codellama/CodeLlama-7b-hf")), 0.77, 0.025);
  EXPECT_NEAR(peak(engine_of("ibm-granite/granite-3.1-2b-instruct")), 0.75, kDigit);  // samples
  const Engine engine = engine_of("codellama/CodeLlama-7b-hf");
  const ModelSizes sizes = model_sizes(engine).value();
  EXPECT_EQ(forward_peak(engine, sizes, 100), 100 * 2 * (3 * 11'008 + 4 * 4'096));
}

TEST(Forward, QuantisesItsProductWhereActivationsAreEightBits) {
  Engine engine = engine_of("codellama/CodeLlama-7b-hf");
  const ModelSizes sizes = model_sizes(engine).value();
  const Bytes plain = forward_peak(engine, sizes, 100);
  engine.weights = DType::fp8;
  EXPECT_EQ(forward_peak(engine, sizes, 100) - plain, 100 * 11'008);
}

// Device peaks of a 0.5B model under Model Runner V2 at 16,384 and 65,536 tokens differ by 1,612,709,888.
TEST(Forward, HoldsTwoHiddenTensorsUnderTheSecondRunner) {
  Engine engine = engine_of("Qwen/Qwen2.5-0.5B");
  engine.hidden_copies = 2;
  const ModelSizes sizes = model_sizes(engine).value();
  EXPECT_NEAR(static_cast<double>(forward_peak(engine, sizes, 65'536) - forward_peak(engine, sizes, 16'384)),
              1'612'709'888, 2.5 * kMiB);
}

TEST(Pipeline, OnlyTheLastStageSamples) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  engine.pipeline = 4;
  EXPECT_NEAR(peak(engine, {0, 4}), 1.08, 0.03);  // printed: 1.10 first, 1.05 middle, 2.01 last
  EXPECT_NEAR(peak(engine, {1, 4}), 1.05, 0.03);
  EXPECT_NEAR(peak(engine, {3, 4}), 2.01, kDigit);
}

TEST(ExpertWorkspace, IsTwoBuffersOfAllChoices) {
  const Engine engine = engine_of("Qwen/Qwen3-30B-A3B");
  const ModelSizes sizes = model_sizes(engine).value();
  EXPECT_EQ(expert_workspace(engine, sizes, 8'192), 8'192 * 8 * 2 * (2'048 + 2'048));  // 0.50 GiB
  const Engine cut = engine_of("mistralai/Mixtral-8x7B-Instruct-v0.1", 2);
  EXPECT_EQ(expert_workspace(cut, model_sizes(cut).value(), 8'192), 8'192 * 2 * 2 * (7'168 + 14'336));
  // Experts of a latent of 1024, without gates: 336 elements of the hidden layer a rank.
  const Engine latent = engine_of("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 8);
  EXPECT_EQ(expert_workspace(latent, model_sizes(latent).value(), 8'192), 8'192 * 22 * 2 * (1'024 + 1'024));
  const Engine dense = engine_of("Qwen/Qwen3-8B");
  EXPECT_EQ(expert_workspace(dense, model_sizes(dense).value(), 8'192), 0);
}

TEST(ExpertWorkspace, GrowsWithAllTokensUnlessExpertsRunInChunks) {
  Engine engine = engine_of("Qwen/Qwen3-30B-A3B");
  const ModelSizes sizes = model_sizes(engine).value();
  EXPECT_EQ(expert_workspace(engine, sizes, 65536), 2 * expert_workspace(engine, sizes, 32768));
  engine.chunks_experts = true;
  EXPECT_EQ(expert_workspace(engine, sizes, 65536), expert_workspace(engine, sizes, 32768));
}

TEST(ExpertWorkspace, OutlivesTheForwardWhereItIsKept) {
  Engine engine = engine_of("mistralai/Mixtral-8x7B-Instruct-v0.1", 2);
  EXPECT_NEAR(peak(engine), 1.21, kDigit);
  const Account kept = account(engine, h100(), {}).value();
  engine.keeps_expert_workspace = false;
  const Account freed = account(engine, h100(), {}).value();
  const ModelSizes sizes = model_sizes(engine).value();
  EXPECT_EQ(kept.workspaces - freed.workspaces, expert_workspace(engine, sizes, 8'192));
  EXPECT_EQ(resident(kept, Residency::asleep).total() - resident(freed, Residency::asleep).total(),
            expert_workspace(engine, sizes, 8'192));
}

TEST(Images, AreAliveWhileTheDecoderIsProfiled) {
  EXPECT_NEAR(peak(engine_of("google/gemma-3-4b-it")), 3.89, kDigit);
  EXPECT_NEAR(peak(engine_of("google/gemma-3-27b-it")), 3.99, kDigit);
}

/// A tower for any size is profiled with its processor's largest image: 128 tokens a side, of two by two patches of 14.
TEST(Images, OfAnySizeAreAsLargeAsTheProcessorLetsThrough) {
  const Engine engine = engine_of("Qwen/Qwen2.5-VL-7B-Instruct");
  const ModelSizes sizes = model_sizes(engine, Stage{}).value();
  const Bytes tokens = 128 * 128, patches = 4 * tokens, patch = 2 * 3 * 14 * 14;
  EXPECT_EQ(sizes.image_bytes, 2 * (patches * patch + tokens * 3584));
  EXPECT_EQ(sizes.image_patches, patches);
  // Text alone has no tower to run.
  EXPECT_EQ(model_sizes(engine_of("Qwen/Qwen2.5-7B-Instruct"), Stage{}).value().image_patches, 0);
}

}  // namespace
}  // namespace headroom::engine

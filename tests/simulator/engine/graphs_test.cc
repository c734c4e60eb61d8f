#include "simulator/engine/graphs.h"

#include <gtest/gtest.h>

#include "tests/simulator/engine/engine_model.h"

namespace headroom::engine {
namespace {

using test::engine_of;
using test::gib;
using test::h100;

double graphs(const Engine& engine, const Host& host = h100()) {
  return gib(vllm_graphs(engine, model_sizes(engine).value(), host));
}

// Taken by vLLM 0.19 on H100 80GB, as its logs print.
TEST(VllmGraphs, GrowWithLayersAndTheFirstCapture) {
  EXPECT_NEAR(graphs(engine_of("meta-llama/Llama-3.1-8B-Instruct")), 0.91, 0.05);
  EXPECT_NEAR(graphs(engine_of("Qwen/Qwen3-8B")), 0.96, 0.05);
  EXPECT_NEAR(graphs(engine_of("google/gemma-2-2b-it")), 0.71, 0.05);
  EXPECT_NEAR(graphs(engine_of("Qwen/Qwen2.5-72B", 4)), 1.54, 0.1);
  Engine stage = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  stage.pipeline = 4;
  EXPECT_NEAR(graphs(stage), 0.51, 0.03);
}

TEST(VllmGraphs, AFullGraphHoldsAttentionsAccumulators) {
  Engine engine = engine_of("deepseek-ai/DeepSeek-V2-Lite");  // 16 heads over a latent of 512: 512 MiB
  const double with = graphs(engine);
  engine.split_kv_graphs = false;
  EXPECT_GT(with - graphs(engine), 0.35);
  engine.split_kv_graphs = true;
  EXPECT_LT(graphs(engine, host_of(find_hardware("a100-80gb").value())), with - 0.35);
}

TEST(VllmGraphs, AttentionSinksTakeOtherKernels) {
  Engine engine = engine_of("openai/gpt-oss-20b", 2);
  const double with = graphs(engine);
  engine.split_kv_graphs = false;
  EXPECT_EQ(with, graphs(engine));
}

TEST(VllmGraphs, ServedAdaptersCaptureEachSizeOnceMore) {
  Engine engine = engine_of("Qwen/Qwen2.5-7B");
  engine.capture_sizes = {1, 2, 4, 8};
  const double plain = graphs(engine);
  engine.lora_slots = 1;
  engine.lora_rank = 16;
  const double a_graph = (1229 + 28 * 174) / 1048576.0;  // GiB; 8 sizes of two kinds beyond the first
  EXPECT_NEAR(graphs(engine) - plain, 8 * a_graph, 1e-6);
}

TEST(SglangGraphs, FollowTheCard) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  engine.kind = EngineKind::sglang;
  engine.max_sequences = 2048;
  EXPECT_EQ(sglang_largest_graph(engine, 24 * kGiB), 24);
  EXPECT_EQ(sglang_largest_graph(engine, 80 * kGiB), 256);
  engine.tensor = 8;
  EXPECT_EQ(sglang_largest_graph(engine, 80 * kGiB), 512);
  engine.tensor = 1;
  engine.few_graphs = true;
  EXPECT_EQ(sglang_largest_graph(engine, 24 * kGiB), 8);
  EXPECT_EQ(sglang_largest_graph(engine, 80 * kGiB), 160);
  engine.max_sequences = 4;
  EXPECT_EQ(sglang_largest_graph(engine, 80 * kGiB), 4);
}

TEST(SglangGraphs, TheFirstFewBringThePool) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  engine.capture_sizes = {8};  // 1, 2, 4, 8: 0.11 GiB printed
  const ModelSizes sizes = model_sizes(engine).value();
  EXPECT_NEAR(gib(sglang_graphs(engine, sizes, h100())), 0.11, 0.01);
  engine.capture_sizes = {256};
  EXPECT_NEAR(gib(sglang_graphs(engine, sizes, h100())), (4 * 27 + 32 * 10) / 1024.0, 0.001);
}

}  // namespace
}  // namespace headroom::engine

#include "simulator/engine/account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "models/architecture/read.h"
#include "models/presets/presets.h"
#include "simulator/engine/graphs.h"
#include "simulator/engine/profile.h"
#include "simulator/hardware/library.h"

namespace headroom::engine {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Architecture> model(const std::string& name) {
  return std::make_shared<Architecture>(make_architecture(find_preset(name).value(), name).value());
}

double gib(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}
Bytes from_gib(double value) {
  return static_cast<Bytes>(value * static_cast<double>(kGiB));
}

/// GRPO of a 7B model on eight 80 GB cards: two GPUs an engine, half of the memory.
struct SevenB {
  Engine engine;
  Host host = host_of(find_hardware("h100").value());
  Work work{.sequences = 512, .prompt = 1024, .length = 3072};
  SevenB() {
    host.others = from_gib(3.55 * 1.06 + 1.40);
    engine.kind = EngineKind::vllm;
    engine.model = model("Qwen/Qwen2.5-7B");
    engine.tensor = 2;
    engine.utilization = 0.5;
    engine.max_length = 32768;
  }
  Account account() const { return engine::account(engine, host, work).value(); }
};

// The figures are worked out by hand from the model's sizes and vLLM's rules, two decimals of a GiB.
TEST(Vllm, SevenBOnTwoGpus) {
  const Account account = SevenB().account();
  constexpr double kHalfDigit = 0.0051;
  EXPECT_FALSE(account.failure.has_value()) << *account.failure;
  EXPECT_NEAR(gib(account.requested), 39.59, kHalfDigit);
  EXPECT_NEAR(gib(account.weights), 7.09 + 0.03, kHalfDigit);  // with 131,072 positions' angles
  // 3.5 × 256 × 152,064 × 4 and 132 rows of scratch, hidden states of 8,192 and 256 tokens, 32 MiB
  EXPECT_NEAR(gib(account.profiled_activation), 0.51 + 0.07 + 0.06 + 0.03, 3 * kHalfDigit);
  EXPECT_NEAR(gib(account.growth), 1.5 + 0.54, kHalfDigit);
  EXPECT_NEAR(gib(account.kv),
              gib(account.requested - account.weights - account.profiled_activation - account.growth -
                  account.graphs),
              kHalfDigit);
  EXPECT_EQ(account.tokens, account.blocks * 16);
  EXPECT_EQ(account.at_once, account.tokens / 3072);
  EXPECT_NEAR(account.concurrency, static_cast<double>(account.tokens) / 32768, 0.001);
  EXPECT_EQ(account.wanted, 256);
  EXPECT_FALSE(account.preempts());
}

TEST(Vllm, KvOfATokenIsHeadsTimesBothSizes) {
  const ModelSizes sizes = model_sizes(SevenB().engine).value();
  EXPECT_EQ(kv_bytes_per_token(sizes), 28'672);  // 28 layers, K and V, 2 of 4 heads, 128, 2 bytes
  Engine many;
  many.model = model("meta-llama/Llama-3.1-8B");
  many.tensor = 16;  // more ranks than its 8 KV heads: one repeated head each
  EXPECT_EQ(kv_bytes_per_token(model_sizes(many).value()), 16'384);
}

/// vLLM's log of Qwen3-Next on one GPU: "Setting attention block size to 544 tokens".
TEST(Vllm, WidensBlocksUntilAStateFitsAPage) {
  Engine engine;
  engine.kind = EngineKind::vllm;
  engine.model = model("Qwen/Qwen3-Next-80B-A3B-Instruct");
  const ModelSizes sizes = model_sizes(engine).value();
  EXPECT_EQ(sizes.state, 3 * 8192 * 2 + 32 * 128 * 128 * 2);
  EXPECT_EQ(sizes.block, 544);
  EXPECT_EQ(sizes.page, 544 * 2 * 2 * 256 * 2);
  EXPECT_EQ(sizes.group_layers, 12);
  EXPECT_EQ(sizes.full_groups, 1);
  EXPECT_EQ(sizes.state_groups, 3);
  EXPECT_EQ(blocks_of_request(sizes, engine, 5000), 10 + 3);
}

TEST(Sglang, KeepsStatesInAPoolOfTheirOwn) {
  Engine engine;
  engine.kind = EngineKind::sglang;
  engine.block_size = 1;
  engine.model = model("Qwen/Qwen3-Next-80B-A3B-Instruct");
  engine.tensor = 4;
  engine.utilization = 0.8;
  Host host;
  host.total = from_gib(140);
  host.context = from_gib(0.5);
  const Account account =
      engine::account(engine, host, {.sequences = 64, .prompt = 512, .length = 1024}).value();
  const Bytes slot = 36 * (3 * 2048 * 2 + 8 * 128 * 128 * 4);
  const Bytes kv = account.tokens * 12 * 2 * 256 * 2;
  EXPECT_EQ((account.kv - kv) % slot, 0);
  EXPECT_NEAR(static_cast<double>(account.kv - kv) / static_cast<double>(account.kv), 0.9 / 1.9, 0.001);
}

TEST(Vllm, DoesNotStartWhereTheTrainerLeavesTooLittle) {
  SevenB run;
  run.host.others = from_gib(40);
  EXPECT_THAT(run.account().failure.value_or(""), HasSubstr("39.59 GiB asked for"));
  run.engine.utilization = 0.45;
  EXPECT_FALSE(run.account().failure.has_value());
}

TEST(Vllm, NamesARequestThatDoesNotFitItsCache) {
  SevenB run;
  run.engine.utilization = 0.14;
  EXPECT_THAT(run.account().failure.value_or(""), HasSubstr("one request of 32768 tokens needs 0.88 GiB"));
  run.engine.utilization = 0.05;
  EXPECT_THAT(run.account().failure.value_or(""), HasSubstr("no memory left for KV blocks"));
}

TEST(Vllm, VersionsDecideWhatComesOutOfTheCache) {
  SevenB run;
  const Account now = run.account();
  run.engine.graphs_in_budget = false;
  const Account unbudgeted = run.account();
  EXPECT_NEAR(gib(unbudgeted.kv - now.kv), gib(now.graphs), 0.001);
  run.engine.counts_others = true;
  const Account old = run.account();
  EXPECT_NEAR(gib(unbudgeted.kv - old.kv), gib(run.host.others + old.context + old.communicators), 0.001);
  EXPECT_GT(old.communicators, kGiB / 2);
  run.engine.graphs = false;
  EXPECT_EQ(run.account().graphs, 0);
}

TEST(Vllm, ADriverWithLargerGraphNodesTakesThemForEveryLayerOfEveryGraph) {
  SevenB run;
  run.engine.full_and_piecewise_graphs = false;
  const Bytes as_logged = run.account().graphs;
  run.host.graph_kernel = 2016;  // the machine that the logs are from
  EXPECT_EQ(run.account().graphs, as_logged);
  run.host.graph_kernel = 2016 + 1000;
  constexpr std::int64_t kLayers = 28, kKernelsALayer = 12;
  EXPECT_EQ(run.account().graphs - as_logged,
            (std::ssize(capture_sizes(run.engine)) - 1) * kLayers * kKernelsALayer * 1000);
}

TEST(Vllm, ReservesAreSetOutright) {
  SevenB run;
  run.engine.kv_bytes = 4 * kGiB;
  EXPECT_LE(run.account().kv, 4 * kGiB);
  EXPECT_GT(run.account().kv, 4 * kGiB - kMiB);
  run.engine.blocks_override = 1000;
  EXPECT_EQ(run.account().blocks, 1000);
}

TEST(Vllm, ASmallCacheIsSlowNotAFailure) {
  SevenB run;
  run.engine.max_length = 3072;
  run.engine.utilization = 0.15;
  const Account account = run.account();
  EXPECT_FALSE(account.failure.has_value());
  EXPECT_TRUE(account.preempts());
  EXPECT_LT(account.at_once, 50);
}

TEST(Vllm, CaptureSizesFollowTheSequences) {
  SevenB run;
  EXPECT_EQ(capture_sizes(run.engine).size(), 51u);
  run.engine.max_sequences = 16;
  EXPECT_EQ(capture_sizes(run.engine), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 24, 32}));
  run.engine.capture_sizes = {1, 7};
  EXPECT_EQ(capture_sizes(run.engine).size(), 2u);
}

TEST(Sglang, ATrainerThatHoldsMoreLeavesASmallerCache) {
  SevenB run;
  run.engine.kind = EngineKind::sglang;
  run.engine.block_size = 1;
  const Account account = run.account();
  const Bytes free = run.host.total - run.host.others - account.context - account.communicators;
  EXPECT_NEAR(gib(account.kv), gib(free) / 2 - gib(account.weights + account.growth), 0.001);
  run.host.others += 10 * kGiB;
  EXPECT_NEAR(gib(account.kv - run.account().kv), 5, 0.001);
  EXPECT_FALSE(run.account().failure.has_value());
  run.host.others = from_gib(70);
  EXPECT_THAT(run.account().failure.value_or(""), HasSubstr("weights take 7.12 GiB"));
  run.host.others = 0;
  run.engine.utilization = 0.99;
  EXPECT_THAT(run.account().failure.value_or(""), HasSubstr("runs out of memory"));
}

// A row of the longest request's tokens, and four, for each request that may run: four bytes a token.
TEST(Sglang, KeepsATableOfRequestsBesideTheCache) {
  SevenB run;
  run.engine.kind = EngineKind::sglang;
  run.engine.max_sequences = 100;
  run.engine.max_length = 1000;
  const Bytes few = run.account().workspaces;
  run.engine.max_sequences = 300;
  EXPECT_EQ(run.account().workspaces - few, 200 * (1000 + 4) * 4);
}

TEST(Residency, SleepLevelsDecideWhatStays) {
  SevenB run;
  Account account = run.account();
  EXPECT_EQ(resident(account, Residency::absent).total(), 0);
  EXPECT_EQ(host_resident(account, Residency::asleep), 0);
  EXPECT_EQ(resident(account, Residency::weights_only)[Component::engine_kv], 0);
  EXPECT_EQ(resident(account, Residency::weights_only)[Component::engine_weights], account.weights);
  account.sleep_level = 1;
  EXPECT_EQ(host_resident(account, Residency::asleep), account.weights);
  account.sleep_level = 0;
  EXPECT_EQ(resident(account, Residency::asleep), resident(account, Residency::awake));
}

TEST(Residency, WhatTheProfileLeavesStaysAsleep) {
  SevenB run;
  const Account account = run.account();
  const Breakdown asleep = resident(account, Residency::asleep);
  EXPECT_EQ(asleep[Component::engine_other], account.growth + account.workspaces + account.leftover);
  EXPECT_EQ(asleep[Component::engine_graphs], account.graphs);
  EXPECT_EQ(asleep[Component::communicators], account.communicators);
  // Context and communicators 1.5, growth 2.04, graphs and workspaces: what two ranks of 0.19 keep.
  EXPECT_NEAR(gib(asleep.total()), 4.4, 0.2);
}

TEST(Residency, AWorkspaceInThePoolGoesWithSleep) {
  SevenB run;
  run.engine.model = model("Qwen/Qwen3-30B-A3B");
  const auto asleep = [&] { return resident(run.account(), Residency::asleep)[Component::engine_other]; };
  const Bytes stays = asleep();
  run.engine.workspace_sleeps = true;
  const ModelSizes sizes = model_sizes(run.engine).value();
  EXPECT_EQ(stays - asleep(), expert_workspace(run.engine, sizes, run.engine.max_batched_tokens));
  EXPECT_EQ(resident(run.account(), Residency::awake)[Component::engine_other],
            resident(run.account(), Residency::weights_only)[Component::engine_other] - run.account().leftover +
                run.account().activation);
}

TEST(Weights, TensorParallelRanksSumToTheModel) {
  for (const char* name : {"Qwen/Qwen2.5-7B", "meta-llama/Llama-3.1-8B", "facebook/opt-1.3b",
                           "Qwen/Qwen3-30B-A3B", "openai-community/gpt2-medium"}) {
    Engine engine;
    engine.model = model(name);
    const Bytes whole = model_sizes(engine).value().weights;
    EXPECT_NEAR(gib(whole), gib(2 * engine.model->parameters()), 0.003 * gib(whole)) << name;
    engine.tensor = 4;
    const Bytes part = model_sizes(engine).value().weights;
    EXPECT_GE(4 * part, whole) << name;  // norms, biases and position tables are replicated
    EXPECT_NEAR(gib(4 * part), gib(whole), 0.02 * gib(whole)) << name;
  }
}

TEST(KvGroups, SlidingLayersHoldAWindow) {
  Architecture five_of_six_slide = *model("Qwen/Qwen2.5-0.5B");
  LayerGroup& all = five_of_six_slide.decoder.groups.at(0);
  LayerGroup sliding = all;
  sliding.first = 4;
  sliding.count = all.count - 4;
  sliding.layer.attention.sliding_window = 512;
  all.count = 4;
  five_of_six_slide.decoder.groups.push_back(sliding);
  Engine engine;
  engine.model = std::make_shared<Architecture>(five_of_six_slide);
  const ModelSizes sizes = model_sizes(engine).value();
  EXPECT_EQ(sizes.group_layers, 4);
  EXPECT_EQ(sizes.full_groups, 1);
  EXPECT_EQ(sizes.sliding_groups, 5);
  const std::int64_t full_only = sizes.full_groups * ceil_div(100'000, engine.block_size);
  const std::int64_t blocks = blocks_of_request(sizes, engine, 100'000);
  EXPECT_GT(blocks, full_only);
  EXPECT_LE(blocks,
            full_only + sizes.sliding_groups *
                            (ceil_div(sizes.window - 1 + engine.max_batched_tokens, engine.block_size) + 1));
}

}  // namespace
}  // namespace headroom::engine

#include "planner/frameworks/engines/facts.h"

#include <gtest/gtest.h>

#include "simulator/hardware/library.h"
#include "tests/support/data.h"
#include "tests/support/engine_log.h"

namespace headroom::engines {
namespace {

Engine of(EngineKind kind, const char* release, Installation installation = {}) {
  Engine engine;
  engine.kind = kind;
  set_release(engine, release, installation);
  return engine;
}

TEST(EngineFacts, FollowTheRelease) {
  EXPECT_EQ(of(EngineKind::vllm, "0.16.0").sampler_rows_factor, 9.5);
  EXPECT_EQ(of(EngineKind::vllm, "0.17.0").sampler_rows_factor, 3.5);
  EXPECT_TRUE(of(EngineKind::vllm, "0.17.0").sampler_scratch);
  EXPECT_FALSE(of(EngineKind::vllm, "0.16.0").allreduce_workspaces);
  EXPECT_TRUE(of(EngineKind::vllm, "0.19.1").allreduce_workspaces);
  EXPECT_FALSE(of(EngineKind::vllm, "0.19.1").allreduce_beside_groups);
  EXPECT_FALSE(of(EngineKind::vllm, "0.17.1").keeps_profiled_graphs);
  EXPECT_TRUE(of(EngineKind::vllm, "0.18.0").keeps_profiled_graphs);
  EXPECT_FALSE(of(EngineKind::vllm, "0.12.0").keeps_expert_workspace);
  EXPECT_TRUE(of(EngineKind::vllm, "0.19.0").keeps_expert_workspace);
  EXPECT_TRUE(of(EngineKind::vllm, "0.8.5").counts_others);
  EXPECT_FALSE(of(EngineKind::vllm, "0.8.5", {.first_engine = true}).counts_others);
  EXPECT_EQ(of(EngineKind::vllm, "0.8.5", {.flashinfer_sampler = true}).sampler_rows_factor, 2.5);
  EXPECT_EQ(of(EngineKind::vllm, "0.11.0", {.flashinfer_sampler = true}).sampler_rows_factor, 3.5);
  EXPECT_EQ(of(EngineKind::vllm, "0.11.1", {.flashinfer_sampler = true}).sampler_rows_factor, 9.5);
  EXPECT_TRUE(of(EngineKind::vllm, "0.17.0").chunks_experts);
  EXPECT_FALSE(of(EngineKind::vllm, "0.18.0").chunks_experts);
  EXPECT_FALSE(of(EngineKind::vllm, "0.29.0").workspace_sleeps);
  EXPECT_TRUE(of(EngineKind::vllm, "0.30.0").workspace_sleeps);
  EXPECT_FALSE(of(EngineKind::vllm, "0.11.0").experts_take_adapters);
  EXPECT_TRUE(of(EngineKind::vllm, "0.11.1").experts_take_adapters);
  EXPECT_EQ(of(EngineKind::vllm, "").release, default_release(EngineKind::vllm));
}

TEST(EngineFacts, TheFirstEngineServesAdaptersInZeroEight) {
  Engine engine;
  engine.kind = EngineKind::vllm;
  engine.lora_slots = 1;
  set_release(engine, "0.8.3");
  EXPECT_FALSE(engine.counts_others);
  set_release(engine, "0.9.1");
  EXPECT_TRUE(engine.counts_others);
}

TEST(EngineFacts, SglangIsNotChargedWithAnotherLibrarysSort) {
  const Engine engine = of(EngineKind::sglang, "0.5.2");
  EXPECT_EQ(engine.sampler_rows_factor, 2.5);
  EXPECT_EQ(engine.block_size, 1);
  EXPECT_FALSE(engine.few_graphs);
  EXPECT_TRUE(of(EngineKind::sglang, "0.4.9").few_graphs);
}

TEST(EngineFacts, StandInOrderWithTheirSource) {
  for (std::size_t i = 0; i < facts().size(); ++i) {
    EXPECT_FALSE(facts()[i].source.empty()) << facts()[i].what;
    if (i > 0 && facts()[i].kind == facts()[i - 1].kind) {
      EXPECT_GE(facts()[i].since, facts()[i - 1].since) << facts()[i].what;
    }
  }
}

TEST(EngineLimits, FollowCardEntryPointAndRelease) {
  const Engine vllm = of(EngineKind::vllm, "0.19.0");
  const auto limits = [](const Engine& engine, const char* card, EntryPoint entry) {
    const Limits found = default_limits(engine, find_hardware(card).value(), entry);
    return std::pair(static_cast<int>(found.sequences), static_cast<int>(found.batched_tokens));
  };
  EXPECT_EQ(limits(vllm, "h100", EntryPoint::server), std::pair(1024, 8192));
  EXPECT_EQ(limits(vllm, "h200", EntryPoint::library), std::pair(1024, 16384));
  EXPECT_EQ(limits(vllm, "a100-80gb", EntryPoint::server), std::pair(256, 2048));
  EXPECT_EQ(limits(vllm, "l4", EntryPoint::library), std::pair(256, 8192));
  EXPECT_EQ(limits(vllm, "h100", EntryPoint::bare), std::pair(128, 2048));
  EXPECT_EQ(limits(of(EngineKind::vllm, "0.8.5"), "h100", EntryPoint::bare), std::pair(1024, 2048));
  Engine old = of(EngineKind::vllm, "0.6.6");
  old.max_length = 8192;
  EXPECT_EQ(limits(old, "h100", EntryPoint::server), std::pair(256, 8192));
  old.max_length = 131072;
  EXPECT_EQ(limits(old, "h100", EntryPoint::server), std::pair(256, 2048));
  EXPECT_EQ(limits(of(EngineKind::sglang, "0.5.2"), "h100", EntryPoint::server), std::pair(2048, 8192));
}

// vLLM turns asynchronous scheduling off where Ray's first executor runs the workers.
TEST(EngineFacts, RaysExecutorSchedulesNoStepAhead) {
  const auto ahead = [](EngineKind kind, const char* release, bool through_ray) {
    Engine engine;
    engine.kind = kind;
    set_release(engine, release, {.through_ray = through_ray});
    return engine.schedules_ahead;
  };
  EXPECT_FALSE(ahead(EngineKind::vllm, "0.13.0", false));
  EXPECT_TRUE(ahead(EngineKind::vllm, "0.17.0", false));
  EXPECT_FALSE(ahead(EngineKind::vllm, "0.17.0", true));
  EXPECT_TRUE(ahead(EngineKind::vllm, "0.25.0", true));
  EXPECT_TRUE(ahead(EngineKind::sglang, "0.5.2", true));
}

// Public start-up logs: what docs/ENGINES.md shows row by row.
TEST(EngineLogs, AreReproduced) {
  const auto logs = test::read_engine_logs(test::data("engines/startup.json"));
  ASSERT_TRUE(logs) << logs.error().text();
  const auto median = [&](const char* figure) { return test::spread(*logs, figure).median; };
  EXPECT_LE(median("weights"), 0.01);
  EXPECT_LE(median("KV tokens"), 0.03);
  EXPECT_LE(median("activation"), 0.05);
  EXPECT_LE(median("graphs"), 0.1);
  EXPECT_LE(median("non-torch"), 0.1);
  EXPECT_GE(test::spread(*logs, "weights").count, 55u);
  EXPECT_LE(test::spread(*logs, "weights").mean, 0.01);
  EXPECT_LE(test::spread(*logs, "KV tokens").mean, 0.03);
}

TEST(EngineLogs, ServersThatRanStart) {
  const auto logs = test::read_engine_logs(test::data("engines/startup.json"));
  ASSERT_TRUE(logs) << logs.error().text();
  for (const test::EngineLog& log : *logs)
    if (log.engine.kind == EngineKind::sglang && log.problem.empty()) {
      EXPECT_EQ(log.fullest.failure.value_or(""), "") << log.id;
    }
}

}  // namespace
}  // namespace headroom::engines

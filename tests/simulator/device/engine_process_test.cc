#include "simulator/device/engine_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/architecture/read.h"
#include "models/presets/presets.h"
#include "simulator/device/host_floor.h"
#include "simulator/hardware/library.h"
#include "tests/simulator/job/small_job.h"

namespace headroom {
namespace {

class EngineProcessTest : public ::testing::Test {
 protected:
  Job job = test::small_job();
  Hardware hardware = find_hardware("h100").value();

  void SetUp() override {
    Engine& engine = job.engines[0];
    engine.kind = EngineKind::vllm;
    engine.model = std::make_shared<Architecture>(
        make_architecture(find_preset("Qwen/Qwen2.5-7B").value(), "Qwen/Qwen2.5-7B").value());
    engine.utilization = 0.5;
    engine.max_length = 3072;
  }
};

TEST_F(EngineProcessTest, SleepsAndWakesInParts) {
  EngineProcess process(job, job.engines[0], hardware);
  EXPECT_EQ(process.device().total(), 0);
  const Breakdown awake = process.act(Verb::start_engine, 4 * kGiB).value().after;
  EXPECT_FALSE(process.failure().has_value());
  EXPECT_GT(awake[Component::engine_kv], 25 * kGiB);
  const Breakdown asleep = process.act(Verb::sleep, 0).value().after;
  EXPECT_EQ(asleep[Component::engine_kv], 0);
  EXPECT_EQ(asleep[Component::engine_weights], 0);
  EXPECT_GT(asleep[Component::communicators], 0);
  const Breakdown weights = process.act(Verb::wake_weights, 0).value().after;
  EXPECT_EQ(weights[Component::engine_weights], awake[Component::engine_weights]);
  EXPECT_EQ(weights[Component::engine_kv], 0);
  EXPECT_EQ(process.act(Verb::wake_kv, 0).value().after, awake);
}

TEST_F(EngineProcessTest, ScoringWakesAndSleepsAgain) {
  EngineProcess process(job, job.engines[0], hardware);
  process.act(Verb::start_engine, 0).value();
  const Breakdown asleep = process.act(Verb::sleep, 0).value().after;
  const EngineProcess::Effect effect = process.act(Verb::score, 0).value();
  EXPECT_GT(effect.highest[Component::engine_kv], 0);
  EXPECT_EQ(effect.after, asleep);
}

TEST_F(EngineProcessTest, KeepsWeightsOnTheHostAtLevelOne) {
  job.engines[0].sleep_level = 1;
  EngineProcess process(job, job.engines[0], hardware);
  process.act(Verb::start_engine, 0).value();
  EXPECT_EQ(process.host(), 0);
  process.act(Verb::sleep, 0).value();
  EXPECT_EQ(process.host(), process.account().weights);
}

TEST_F(EngineProcessTest, FailsToStartBesideAFullTrainer) {
  EngineProcess process(job, job.engines[0], hardware);
  process.act(Verb::start_engine, 60 * kGiB).value();
  EXPECT_THAT(process.failure().value_or(""), ::testing::HasSubstr("vLLM does not start"));
  EXPECT_FALSE(process.slow().has_value());
}

TEST_F(EngineProcessTest, WorkIsAReplicasShare) {
  const engine::Work work = engine_work(job, job.engines[0]);
  EXPECT_EQ(work.sequences, 256 * 8 / 4);  // four replicas of two GPUs
  EXPECT_EQ(work.length, 3072);
  job.engines[0].utilization = 0.15;
  EngineProcess process(job, job.engines[0], hardware);
  process.act(Verb::start_engine, 0).value();
  EXPECT_THAT(process.slow().value_or(""), ::testing::HasSubstr("256 could run"));
}

// 8 trainers, 8 engine processes, 20 helpers; 2,048 sequences of 3,072 tokens.
TEST(HostFloor, CountsProcessesAndBatch) {
  Job job = test::small_job();
  job.helpers = 20;
  const Breakdown floor = host_floor(job);
  EXPECT_EQ(floor[Component::other], 8 * 4 * kGiB + 36 * kGiB + 30 * kGiB);
  EXPECT_EQ(floor[Component::staging], std::int64_t{2048} * 3072 * 60 * 3);
}

}  // namespace
}  // namespace headroom

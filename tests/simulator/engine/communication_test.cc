#include "simulator/engine/communication.h"

#include <gtest/gtest.h>

#include "tests/simulator/engine/engine_model.h"

namespace headroom::engine {
namespace {

using test::engine_of;
using test::gib;
using test::h100;

double before_loading(const Engine& engine) {
  const Host host = h100();
  return gib(host.context + communicators_at_start(engine, model_sizes(engine).value(), host));
}

// Printed by vLLM 0.19 on H100 80GB as memory in use at the first snapshot.
TEST(Communicators, AreOneAGroup) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  EXPECT_NEAR(before_loading(engine), 0.51, 0.01);
  engine.tensor = 2;
  EXPECT_NEAR(before_loading(engine), 1.53, 0.02);
  engine.tensor = 1;
  engine.pipeline = 2;
  EXPECT_NEAR(before_loading(engine), 1.43, 0.02);
}

TEST(Communicators, AMixtureHasOneMoreForItsExperts) {
  EXPECT_NEAR(before_loading(engine_of("mistralai/Mixtral-8x7B-Instruct-v0.1", 2)), 2.01, 0.03);
  EXPECT_NEAR(before_loading(engine_of("mistralai/Mixtral-8x7B-Instruct-v0.1", 1)), 0.51, 0.01);
}

TEST(Communicators, InsideATrainerItsGroupsAreItsOwn) {
  const Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct", 2);
  Host host = h100();
  const ModelSizes sizes = model_sizes(engine).value();
  const Bytes beside = communicators_at_start(engine, sizes, host);
  host.shares_process = true;
  // Without the library, the kernels of collectives and PyTorch's first ones.
  EXPECT_EQ(beside - communicators_at_start(engine, sizes, host), (172 + 186 + 92) * kMiB);
}

double growth(const Engine& engine, const Host& host = h100()) {
  return gib(growth_while_profiling(engine, host));
}

TEST(Growth, OnOneGpuFollowsWhetherGraphsAreProfiled) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  EXPECT_NEAR(growth(engine), 0.25, 0.01);  // 0.18 and later
  engine.keeps_profiled_graphs = false;
  EXPECT_NEAR(growth(engine), 0.13, 0.01);  // to 0.17
}

TEST(Growth, OfTensorRanksHoldsFusedAllReduceAwakeAndAsleep) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct", 2);
  EXPECT_NEAR(growth(engine), 2.07, 0.04);
  const Bytes asleep = resident(account(engine, h100(), {}).value(), Residency::asleep).total();
  engine.allreduce_workspaces = false;
  EXPECT_NEAR(growth(engine), 0.54, 0.01);  // releases before 0.17
  EXPECT_EQ(asleep - resident(account(engine, h100(), {}).value(), Residency::asleep).total(), 3 * kGiB / 2);
}

TEST(FusedAllReduce, IsRoundedToTheFabricThreeTimes) {
  const Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct", 2);
  EXPECT_EQ(allreduce_workspaces(engine, 4096, h100()), 3 * 512 * kMiB);
  Host fine = h100();
  fine.multicast = 2 * kMiB;
  EXPECT_EQ(allreduce_workspaces(engine, 4096, fine), 128 * kMiB + 2 * kMiB + 384 * kMiB);
}

TEST(FusedAllReduce, NeedsHopperASwitchAndItsRanks) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct", 2);
  const auto there = [&](const char* card) {
    return allreduce_workspaces(engine, 4096, host_of(find_hardware(card).value())) > 0;
  };
  EXPECT_TRUE(there("h100"));
  EXPECT_TRUE(there("h200"));
  EXPECT_FALSE(there("h100-pcie"));
  EXPECT_FALSE(there("a100-80gb"));
  EXPECT_FALSE(there("l40s"));
  engine.tensor = 1;
  EXPECT_FALSE(there("h100"));
  engine.tensor = 4;
  EXPECT_TRUE(there("h100"));
  engine.pipeline = 2;
  EXPECT_FALSE(there("h100"));
  engine.allreduce_beside_groups = true;
  EXPECT_TRUE(there("h100"));
}

TEST(Growth, OfStagesIsCublasAlone) {
  Engine engine = engine_of("meta-llama/Llama-3.1-8B-Instruct");
  engine.pipeline = 4;
  EXPECT_NEAR(growth(engine), 0.07, 0.005);
}

}  // namespace
}  // namespace headroom::engine

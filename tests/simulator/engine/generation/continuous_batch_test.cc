#include "simulator/engine/generation/continuous_batch.h"

#include <gtest/gtest.h>

#include <numeric>

#include "simulator/job/response_lengths.h"
#include "tests/simulator/engine/engine_model.h"

namespace headroom::engine {
namespace {

struct Replica {
  explicit Replica(const char* model = "meta-llama/Llama-3.1-8B-Instruct", const char* card = "h100")
      : hardware(find_hardware(card).value()) {
    engine = test::engine_of(model);
    account.weights = 2 * engine.model->parameters();
    account.tokens = 400'000;
    account.kv = account.tokens * 131072;
  }
  Seconds token(double running, double context = 1000) const {
    return TokenSteps(engine, account, hardware, 8).decode(running, context);
  }
  double seconds(RequestLoad load) const {
    return generation_seconds(load, TokenSteps(engine, account, hardware, 8)).total();
  }

  Hardware hardware;
  Engine engine;
  Account account;
};

/// `count` requests of `mean` tokens up to `cap`, after prompts of 100.
RequestLoad load(double count, double mean, double cap, double slots, double cache = 0) {
  RequestLoad out;
  out.prompt = 100;
  out.prompts = count;
  out.slots = slots;
  out.cache = cache;
  for (const double tokens : response_quantiles(mean, cap, 32)) out.ends.push_back({count / 32, tokens});
  return out;
}

TEST(ResponseQuantiles, HaveTheirMeanAndCap) {
  for (const double mean : {100.0, 500.0, 900.0, 1024.0}) {
    const std::vector<double> all = response_quantiles(mean, 1024, 64);
    EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0) / 64, mean, 0.03 * mean + 16) << mean;
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
    EXPECT_EQ(all.back(), 1024);
  }
}

TEST(Generation, LastsUntilTheLongestHasEnded) {
  const Replica one;
  const double least = 1024 * one.token(1, 100).total();
  EXPECT_GT(one.seconds(load(64, 200, 1024, 256)), least);
  EXPECT_LT(one.seconds(load(64, 200, 1024, 256)), 1024 * one.token(64, 1124).total() * 1.1);
}

TEST(Generation, AQueueTakesAsLongAsItsTokens) {
  const Replica one;
  const double few = one.seconds(load(1024, 500, 500, 256)), many = one.seconds(load(4096, 500, 500, 256));
  EXPECT_NEAR(many / few, 4, 0.3);
}

TEST(Generation, WaitsWhereTheCacheIsFull) {
  const Replica one;
  const double free = one.seconds(load(256, 2000, 4000, 256));
  double last = free;
  for (const double cache : {400e3, 200e3, 100e3, 50e3}) {
    const double now = one.seconds(load(256, 2000, 4000, 256, cache));
    EXPECT_GE(now, last * 0.98) << cache;
    last = now;
  }
  EXPECT_GT(last, 2 * free);
}

TEST(Generation, StepsInFlightShareTheTail) {
  const Replica one;
  const double alone = one.seconds(load(64, 400, 4096, 1024)), eight = one.seconds(load(512, 400, 4096, 1024));
  EXPECT_LT(eight / 8, 0.4 * alone);
}

TEST(TokenSteps, ReadTheWeightsOnceAStep) {
  const Replica one;
  const double ideal = static_cast<double>(one.account.weights) / one.hardware.memory_bandwidth;
  EXPECT_GT(one.token(1)[Spent::memory], ideal * 0.9);
  EXPECT_LT(one.token(1)[Spent::memory], ideal * 1.6);
  EXPECT_LT(one.token(64)[Spent::memory], 2.5 * one.token(1)[Spent::memory]);
}

TEST(TokenSteps, OfExpertsOnlyThoseThatAreChosen) {
  const Replica one("Qwen/Qwen3-30B-A3B");
  EXPECT_LT(one.token(1)[Spent::memory], one.token(64)[Spent::memory] / 4);
  const ModelParts parts(*one.engine.model);
  EXPECT_NEAR(parts.met(1), 3.0e9, 0.4e9);
  EXPECT_NEAR(parts.met(1e6) / parts.all(), 1, 0.02);
  EXPECT_NEAR(parts.all(), static_cast<double>(one.engine.model->parameters()), 1);
  EXPECT_EQ(parts.routed_tensors(), 48 * 128 * 2);  // gate and up are one tensor
}

TEST(TokenSteps, ReduceOverNodesByTrees) {
  Replica one;
  one.engine.tensor = 8;
  const double inside = one.token(64)[Spent::network];
  one.engine.tensor = 32;
  const double across = one.token(64)[Spent::network];
  EXPECT_GT(across, 3 * inside);
  EXPECT_LT(across, 2 * 32 * 300e-6);  // a ring of 32 would take twice that
}

TEST(TokenSteps, HideTheHostWhenTheyScheduleAhead) {
  Replica one;
  EXPECT_GT(one.token(64)[Spent::host], one.hardware.host_times.engine_step);
  one.engine.schedules_ahead = true;
  EXPECT_EQ(one.token(64)[Spent::host], 0);
  one.engine.graphs = false;  // then the host dispatches every kernel
  EXPECT_GT(one.token(64)[Spent::host], 0);
}

TEST(TokenSteps, DispatchKernelsWithoutGraphs) {
  Replica one;
  const double graphs = one.token(8).total();
  one.engine.graphs = false;
  const double eager = one.token(8).total();
  EXPECT_GT(eager, 1.25 * graphs);
  one.engine.lora_slots = 1;
  EXPECT_GT(one.token(8).total(), 1.2 * eager);
}

}  // namespace
}  // namespace headroom::engine

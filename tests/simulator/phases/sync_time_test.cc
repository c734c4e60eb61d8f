#include "simulator/phases/sync_time.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/support/data.h"
#include "tests/simulator/engine/engine_model.h"

namespace headroom {
namespace {

struct Synced {
  explicit Synced(const char* model) : hardware(find_hardware("h100").value()), engine(engine::test::engine_of(model)) {
    Pool pool;
    pool.nodes = 4;
    pool.gpus_per_node = 8;
    job.pools = {pool};
    role.name = "actor";
    role.model = engine.model;
    role.sharding.kind = ShardingKind::megatron;
    role.parallel.tensor = 4;
  }
  double seconds() const { return sync_seconds(job, role, engine, hardware).total(); }

  Hardware hardware;
  Engine engine;
  Job job;
  Role role;
};

TEST(SyncSeconds, GoThroughTheSlowestLink) {
  Synced inside("Qwen/Qwen2.5-7B-Instruct");
  const double bytes = 2.0 * static_cast<double>(inside.role.model->parameters());
  EXPECT_GT(inside.seconds(), bytes / inside.hardware.links.nvlink);
  Synced stages = inside;
  stages.role.parallel.pipeline = 8;
  EXPECT_GT(stages.seconds(), inside.seconds());
  Synced apart = inside;
  Pool rollout = apart.job.pools.front();
  rollout.name = "rollout";
  apart.job.pools.push_back(rollout);
  apart.job.processes.resize(1);
  apart.job.processes[0].pool = "rollout";
  apart.job.processes[0].engine = apart.engine.name;
  EXPECT_GT(apart.seconds(), inside.seconds() + bytes / apart.hardware.links.network);
}

TEST(SyncSeconds, CountEveryExpertsTensors) {
  Synced dense("Qwen/Qwen2.5-32B-Instruct"), experts("Qwen/Qwen3-30B-A3B");
  EXPECT_GT(sync_seconds(experts.job, experts.role, experts.engine, experts.hardware)[Spent::host],
            5 * sync_seconds(dense.job, dense.role, dense.engine, dense.hardware)[Spent::host]);
  experts.engine.sync.adapters_only = true;
  EXPECT_EQ(experts.seconds(), 0);
}

/// The last step's, of the pool's first device.
const PhaseReport* sync_of(const Report& report, const std::string& pool) {
  for (const DeviceReport& device : report.devices) {
    if (device.pool != pool) continue;
    const PhaseReport* last = nullptr;
    for (const PhaseReport& phase : device.phases)
      if (phase.phase == "weight_sync") last = &phase;
    return last;
  }
  return nullptr;
}

TEST(SyncSeconds, HoldUpTrainersAndAnEngineOnOtherGpus) {
  const auto read = read_job(std::array{test::data("job-fields/context.yaml").string()}, {});
  ASSERT_TRUE(read) << read.error().text();
  const auto report = simulate(read->job, find_hardware("h100").value());
  ASSERT_TRUE(report) << report.error().text();
  const PhaseReport* sends = sync_of(*report, "");
  const PhaseReport* receives = sync_of(*report, "serve");
  ASSERT_NE(sends, nullptr);
  ASSERT_NE(receives, nullptr);
  EXPECT_GT(sends->spent[Spent::network], 0);
  EXPECT_GT(receives->spent[Spent::waiting], 0);
  EXPECT_LE(receives->spent[Spent::waiting], sends->seconds + 1e-9);
}

TEST(SyncSeconds, OfAGroupOfAllTrainersUseEveryAdapter) {
  Synced one("Qwen/Qwen2.5-7B-Instruct");
  one.job.pools.push_back({.name = "rollout", .nodes = 4, .gpus_per_node = 8});
  one.job.processes.resize(1);
  one.job.processes[0].pool = "rollout";
  one.job.processes[0].engine = one.engine.name;
  Synced all = one;
  all.engine.sync.every_rank = true;
  EXPECT_LT(all.seconds(), one.seconds() - 0.1);
}

}  // namespace
}  // namespace headroom

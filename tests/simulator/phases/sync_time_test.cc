#include "simulator/phases/sync_time.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace headroom

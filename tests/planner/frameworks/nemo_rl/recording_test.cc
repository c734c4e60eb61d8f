#include "planner/frameworks/nemo_rl/recording.h"

#include <gtest/gtest.h>

#include <array>

#include "models/document/document.h"
#include "planner/frameworks/registry.h"
#include "tests/support/data.h"

namespace headroom::nemo_rl {
namespace {

/// A recording states its configuration, model, card, release and the refit's buffers.
TEST(NemoRecording, IsReadAsTheRunThatItWas) {
  const std::string path = test::data("nemo-rl-worker/ll1b-ckpt-1gpu.json");
  const ReadJob read = read_job(std::array{path}, {}).value();
  EXPECT_EQ(read.job.framework, "nemo-rl");
  EXPECT_EQ(read.job.gpu, "NVIDIA H200");
  EXPECT_EQ(read.job.versions.framework, "0.5.0");
  const Role& actor = *read.job.role("actor");
  EXPECT_EQ(actor.model->decoder.hidden, 2048);
  EXPECT_EQ(actor.recompute.kind, RecomputeKind::selective);
  EXPECT_EQ(read.job.engines.front().sync.bucket, 2 * kGiB);
}

/// What the first worker's FSDP2 does beside PyTorch's own defaults; each is held by a recording's peaks.
TEST(NemoRecording, HasTheWorkersOwnUnits) {
  const std::string path = test::data("nemo-rl-worker/q05-1gpu.json");
  const ReadJob read = read_job(std::array{path}, {}).value();
  const Sharding& sharding = read.job.role("actor")->sharding;
  EXPECT_TRUE(sharding.gathers_whole_forward);
  EXPECT_TRUE(sharding.ties_after_sharding);
  EXPECT_TRUE(sharding.root_stays_gathered);
  EXPECT_FALSE(sharding.embedding_wrapped);
}

}  // namespace
}  // namespace headroom::nemo_rl

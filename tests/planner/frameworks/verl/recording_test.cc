#include "planner/frameworks/verl/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "planner/frameworks/registry.h"
#include "tests/support/data.h"

namespace headroom::verl {
namespace {

/// A recording states its own overrides, model, card and micro-batches.
TEST(Recording, IsReadAsTheRunThatItWas) {
  const std::string path = test::data("verl-recorded/w1-q05-fsdp2-dyn.json");
  const ReadJob read = read_job(std::array{path}, {}).value();
  EXPECT_EQ(read.job.framework, "verl");
  EXPECT_EQ(read.job.pools.front().gpus_per_node, 1);
  EXPECT_EQ(read.job.role("actor")->sharding.kind, ShardingKind::fsdp2);
  EXPECT_EQ(read.job.role("actor")->model->decoder.hidden, 896);
  EXPECT_EQ(read.job.versions.torch, "2.11.0");
  ASSERT_FALSE(read.job.lengths.listed.empty());
  EXPECT_EQ(read.job.lengths.listed.front().role, "actor");
  EXPECT_EQ(read.job.lengths.listed.front().micro_batches.front().front(), 272);
}

/// What the machine lacked counts too.
TEST(Recording, KnowsAMachineWithoutFlashAttn) {
  const std::string path = test::data("verl-recorded/w1-q05-fsdp2-noflash.json");
  const ReadJob read = read_job(std::array{path}, {}).value();
  EXPECT_EQ(read.job.role("actor")->loss.token_logprob, TokenLogprob::selective_log_softmax);
  EXPECT_FALSE(read.job.role("actor")->packed);
  EXPECT_FALSE(read.job.role("actor")->loss.entropy_compiled);
}

}  // namespace
}  // namespace headroom::verl

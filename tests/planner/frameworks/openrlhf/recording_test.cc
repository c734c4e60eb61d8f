#include <gtest/gtest.h>

#include <array>

#include "planner/frameworks/registry.h"
#include "tests/support/data.h"

namespace headroom::openrlhf {
namespace {

Result<ReadJob> recorded(const std::string& name) {
  const std::string path = test::data("openrlhf-actors/" + name + ".json");
  return read_job(std::array{path}, {});
}

/// A recording states its command, its models' values, its card and the libraries it ran on.
TEST(OpenRlhfRecording, IsReadAsTheRunThatItWas) {
  const ReadJob read = recorded("grpo-q05-z2-packed").value();
  EXPECT_EQ(read.job.framework, "openrlhf");
  EXPECT_EQ(read.job.gpu, "NVIDIA H200");
  EXPECT_EQ(read.job.versions.torch, "2.11.0");
  EXPECT_EQ(read.job.versions.transformers, "5.17.0");
  EXPECT_EQ(read.job.versions.deepspeed, "0.19.5");
  const Role& actor = *read.job.role("actor");
  EXPECT_EQ(actor.model->decoder.hidden, 896);
  EXPECT_EQ(actor.sharding.kind, ShardingKind::zero2);
  EXPECT_TRUE(actor.packed);
  EXPECT_EQ(read.job.pools.front().gpus(), 1);
}

/// Every model of the run has the recorded values, whatever name the words give it.
TEST(OpenRlhfRecording, HasTheSameModelForEveryRole) {
  const ReadJob read = recorded("ppo-q05-critic-z2").value();
  for (const char* name : {"actor", "critic", "ref", "reward"}) {
    ASSERT_NE(read.job.role(name), nullptr) << name;
    EXPECT_EQ(read.job.role(name)->model->decoder.layers, 24) << name;
  }
}

/// Its GPUs are the launcher's of a program that has one.
TEST(OpenRlhfRecording, RunsASupervisedProgramOnItsRanks) {
  const ReadJob read = recorded("sft-q05-z3").value();
  EXPECT_EQ(read.job.algorithm, Algorithm::sft);
  EXPECT_EQ(read.job.pools.front().gpus(), 1);
}

}  // namespace
}  // namespace headroom::openrlhf

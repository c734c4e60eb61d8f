#include "simulator/job/batching.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/simulator/job/small_job.h"

namespace headroom {
namespace {

double filled(const Job& job) {
  return micro_batches(job, job.roles[0], Pass::train, job.batch.sequence_length()).filled;
}

TEST(Batching, SplitsABudgetEvenlyAndMayExceedIt) {
  const Job job = test::small_job();
  const MicroBatches train = micro_batches(job, job.roles[0], Pass::train, 3072);
  EXPECT_EQ(train.count, 12);  // ceil(64 · 3072 / 16384)
  EXPECT_EQ(train.sequences, 6);
  EXPECT_EQ(train.tokens, 6 * 3072);
  EXPECT_EQ(train.tokens_per_rank, 6 * 3072);
  EXPECT_EQ(micro_batches(job, job.roles[0], Pass::forward, 3072).count, 48);
}

TEST(Batching, NeverPacksMoreThanThereIs) {
  Job job = test::small_job();
  job.roles[0].train.overshoot = 0.05;
  EXPECT_EQ(micro_batches(job, job.roles[0], Pass::train, 100).tokens, 64 * 100);
  EXPECT_EQ(micro_batches(job, job.roles[0], Pass::train, 100).count, 1);
  EXPECT_EQ(micro_batches(job, job.roles[0], Pass::train, 512).tokens, 17203);  // 1.05 · 16384
}

TEST(Batching, SequenceParallelRanksShareABudget) {
  Job job = test::small_job();
  job.roles[0].parallel.ulysses = 2;
  const MicroBatches train = micro_batches(job, job.roles[0], Pass::train, 3072);
  EXPECT_EQ(data_parallel_size(job, job.roles[0]), 4);
  EXPECT_EQ(shard_group_size(job, job.roles[0]), 8);
  EXPECT_EQ(train.count, 12);  // 128 sequences, a budget of 32768
  EXPECT_EQ(train.sequences, 11);
  EXPECT_EQ(train.tokens_per_rank, 11 * 3072 / 2);
}

TEST(Batching, FixedMicroBatchesLeaveASmallerLastOne) {
  Job job = test::small_job();
  job.roles[0].train = {.sequences = 5, .tokens = 0};
  const MicroBatches train = micro_batches(job, job.roles[0], Pass::train, 1000);
  EXPECT_EQ(train.count, 13);
  EXPECT_EQ(train.tokens, 5000);
  job.roles[0].train.round_to = 1024;
  EXPECT_EQ(micro_batches(job, job.roles[0], Pass::train, 1000).tokens, 5120);
}

TEST(Batching, RolesOverrideTheMiniBatchAndHybridGroups) {
  Job job = test::small_job();
  job.roles[0].mini_batch = 64;
  job.roles[0].sharding.group = 4;
  EXPECT_EQ(micro_batches(job, job.roles[0], Pass::train, 1024).tokens, 8 * 1024);
  EXPECT_EQ(shard_group_size(job, job.roles[0]), 4);
  EXPECT_EQ(data_parallel_size(job, job.roles[0]), 8);
}

/// Packed sequences of 400 tokens on average, eight a micro-batch.
Job known_lengths() {
  Job job = test::small_job();
  job.batch.prompt_length = 100;
  job.batch.response_length = 300;
  job.lengths.mean_prompt = 100;
  job.lengths.mean_response = 300;
  job.lengths.max_response = 1024;
  job.roles[0].sharding.kind = ShardingKind::fsdp2;
  job.roles[0].packed = true;
  job.roles[0].train = {.sequences = 8, .tokens = 0};
  return job;
}

TEST(Batching, RanksThatGatherLayersWaitForTheLongestOfEachMicroBatch) {
  Job job = known_lengths();
  const double ranks = filled(job);
  EXPECT_GT(ranks, 1.1);
  EXPECT_LT(ranks, 1.6);
  job.roles[0].train.sequences = 32;  // sums of more sequences differ less
  EXPECT_NEAR(filled(job) - 1, (ranks - 1) / 2, 1e-9);
  job.roles[0].train.sequences = 8;
  job.lengths.spread = 40;
  EXPECT_NEAR(filled(job), 1 + 1.42 * 40 / std::sqrt(8.0) / 400, 0.01);
  job.roles[0].sharding.kind = ShardingKind::zero1;
  EXPECT_DOUBLE_EQ(filled(job), 1);
  job = known_lengths();
  job.roles[0].train = {.sequences = 0, .tokens = 8192};
  EXPECT_LE(filled(job), 1);
  job = known_lengths();
  job.lengths = {};
  EXPECT_DOUBLE_EQ(filled(job), 1);
}

// A batch that was widened to the largest micro-batch for its peak takes no longer for it.
TEST(Batching, SecondsFollowTheMeanAndNotAWidenedBatch) {
  Job job = known_lengths();
  const double tokens = 400 * filled(job);
  job.batch.response_length = 380;
  const MicroBatches wide = micro_batches(job, job.roles[0], Pass::train, 480);
  EXPECT_NEAR(480 * wide.filled, tokens, 1e-9);
}

}  // namespace
}  // namespace headroom

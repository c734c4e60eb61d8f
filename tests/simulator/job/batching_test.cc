#include "simulator/job/batching.h"

#include <gtest/gtest.h>

#include "tests/simulator/job/small_job.h"

namespace headroom {
namespace {

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

}  // namespace
}  // namespace headroom

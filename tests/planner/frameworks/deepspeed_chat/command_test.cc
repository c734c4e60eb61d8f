#include "planner/frameworks/deepspeed_chat/command.h"

#include "tests/planner/frameworks/openrlhf/run.h"

namespace headroom {
namespace {

using testing::HasSubstr;

const std::string kScript = R"(#!/bin/bash
STAGE=$1
deepspeed --num_gpus 4 main.py \
  --actor_model_name_or_path facebook/opt-1.3b --critic_model_name_or_path facebook/opt-350m \
  --per_device_generation_batch_size 4 --per_device_training_batch_size 4 \
  --max_prompt_seq_len 128 --max_answer_seq_len 384 \
  --actor_zero_stage 3 --critic_zero_stage 3 --offload --dtype bf16 \
  --actor_gradient_checkpointing --critic_gradient_checkpointing \
  --actor_learning_rate 1e-6
)";

std::string with(const std::string& flags) {
  return kScript.substr(0, kScript.size() - 1) + " " + flags + "\n";
}
std::string complaint(const std::string& text) {
  const Result<ReadJob> read = test::read_launch(text);
  return read ? "" : read.error().text();
}

TEST(DeepSpeedChatCommand, AScriptIsACase) {
  const Result<ReadJob> read = test::read_launch(kScript);
  ASSERT_TRUE(read) << read.error().text();
  const Job& job = read->job;
  EXPECT_EQ(job.framework, "deepspeed-chat");
  EXPECT_EQ(job.pools.front().gpus(), 4);
  EXPECT_EQ(job.role("actor")->sharding.kind, ShardingKind::zero3);
  EXPECT_TRUE(job.role("actor")->sharding.offload_optimizer);
  EXPECT_EQ(job.role("actor")->precision.weights, DType::bf16);
  EXPECT_EQ(job.role("critic")->recompute.kind, RecomputeKind::full);
  EXPECT_EQ(job.batch.prompt_length, 128);
  EXPECT_EQ(job.batch.response_length, 384);
}

TEST(DeepSpeedChatCommand, WhatIsNotModelledIsRefusedAtItsLine) {
  EXPECT_THAT(complaint(with("--enable_hybrid_engine")), HasSubstr("run.sh:9: enable_hybrid_engine: expected false"));
  EXPECT_THAT(complaint(with("--critic_zero_stage 2")),
              HasSubstr("critic_zero_stage: expected --actor_zero_stage's 3"));
  EXPECT_THAT(complaint(with("--actor_zero_stage $STAGE")), HasSubstr("actor_zero_stage: expected"));
  EXPECT_THAT(complaint(with("--actor_model_name_or_path no/such")), HasSubstr("actor_model_name_or_path"));
}

}  // namespace
}  // namespace headroom

#include "planner/frameworks/deepspeed_chat/ppo.h"

#include "simulator/engine/hybrid.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/openrlhf/run.h"

namespace headroom {
namespace {

using testing::Contains;
using testing::HasSubstr;

const std::string kScript = R"(#!/bin/bash
STAGE=$1
deepspeed --num_gpus 4 main.py \
  --actor_model_name_or_path facebook/opt-1.3b --critic_model_name_or_path facebook/opt-350m \
  --per_device_generation_batch_size 4 --per_device_training_batch_size 4 \
  --max_prompt_seq_len 128 --max_answer_seq_len 384 \
  --actor_zero_stage 3 --critic_zero_stage 3 --dtype bf16 \
  --actor_gradient_checkpointing --critic_gradient_checkpointing \
  --actor_learning_rate 1e-6
)";
/// Small, so that many are simulated.
const std::string kSmall =
    "deepspeed --num_gpus 2 main.py --actor_model_name_or_path facebook/opt-125m --critic_model_name_or_path facebook/opt-125m "
    "--per_device_generation_batch_size 4 --per_device_training_batch_size 4 --max_prompt_seq_len 32 --max_answer_seq_len 32 "
    "--dtype bf16 --actor_dropout 0 --critic_dropout 0 ";

std::string with(const std::string& flags) {
  return kScript.substr(0, kScript.size() - 1) + " " + flags + "\n";
}
ReadJob read_of(const std::string& text) {
  Result<ReadJob> read = test::read_launch(text);
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return read ? std::move(*read) : ReadJob{};
}
Job job_of(const std::string& text) {
  return read_of(text).job;
}
std::string complaint(const std::string& text) {
  const Result<ReadJob> read = test::read_launch(text);
  return read ? "" : read.error().text();
}
std::string warnings_of(const std::string& text) {
  std::string out;
  for (const Notice& notice : read_of(text).warnings) out += notice.text() + "\n";
  return out;
}

/// The largest figure of `member` in the rows of a phase's name; all rows where it is empty.
Bytes most(const std::string& flags, Bytes ProcessPhase::*member, const std::string& phase = "") {
  Job job = job_of(kSmall + flags);
  const Result<Report> report = simulate(job, load_hardware("h100").value());
  EXPECT_TRUE(report) << flags << (report ? "" : report.error().text());
  Bytes out = 0;
  if (!report) return out;
  for (const PhaseReport& row : report->devices.front().phases)
    if (phase.empty() || row.phase == phase) out = std::max(out, row.processes.front().*member);
  return out;
}
Bytes peak(const std::string& flags, const std::string& phase = "") {
  return most(flags, &ProcessPhase::peak_allocated, phase);
}

TEST(DeepSpeedChatPpo, AScriptIsRead) {
  const Job job = job_of(with("--offload"));
  EXPECT_EQ(job.framework, "deepspeed-chat");
  EXPECT_EQ(job.algorithm, Algorithm::ppo);
  EXPECT_EQ(job.pools.front().gpus(), 4);
  EXPECT_EQ(job.role("actor")->sharding.kind, ShardingKind::zero3);
  EXPECT_TRUE(job.role("actor")->sharding.offload_optimizer);
  EXPECT_EQ(job.role("actor")->precision.weights, DType::bf16);
  EXPECT_EQ(job.role("critic")->recompute.kind, RecomputeKind::full);
  EXPECT_EQ(job.batch.prompt_length, 128);
  EXPECT_EQ(job.batch.response_length, 384);
  EXPECT_EQ(job.engines.front().kind, EngineKind::transformers);
}

TEST(DeepSpeedChatPpo, ActorAndCriticHaveFlagsOfTheirOwn) {
  const Job job = job_of(with("--actor_zero_stage 2 --actor_lora_dim 16 --critic_dropout 0.0"));
  EXPECT_EQ(job.role("actor")->sharding.kind, ShardingKind::zero2);
  EXPECT_EQ(job.role("ref")->sharding.kind, ShardingKind::zero0);
  EXPECT_EQ(job.role("critic")->sharding.kind, ShardingKind::zero3);
  EXPECT_EQ(job.role("reward")->sharding.kind, ShardingKind::zero3);
  EXPECT_TRUE(job.role("actor")->lora.has_value());
  EXPECT_TRUE(job.role("actor")->lora->rest_trains);
  EXPECT_FALSE(job.role("critic")->lora.has_value());
  EXPECT_TRUE(job.role("actor")->dropout);
  EXPECT_FALSE(job.role("critic")->dropout);
}

TEST(DeepSpeedChatPpo, FlagsOfTheFirstReleaseAreTheSame) {
  const Job job = job_of(kSmall + "--per_device_train_batch_size 8 --per_device_mini_train_batch_size 2 --generation_batch_numbers 2 --disable_actor_dropout");
  EXPECT_EQ(job.batch.prompts, 16);
  EXPECT_EQ(job.role("actor")->train.sequences, 2);
  int trainings = 0;
  for (const PhaseSpec& phase : job.step) trainings += phase.name == "train_actor";
  EXPECT_EQ(trainings, 8);  // two batches of eight, two at once
}

TEST(DeepSpeedChatPpo, TheHybridEngineTakesAWorkspaceOfItsOwn) {
  // (10 heads' widths + scores + keys and values) x tokens of four rows, in two bytes.
  const Bytes workspace = (10 * 12 * 64 * 4 + 4 * 12 * 64 + 12 * 4 * 12 * 64 * 2) * Bytes{64} * 2;
  EXPECT_EQ(hybrid_workspace(job_of(kSmall + "--enable_hybrid_engine").engines.front()), workspace);
  const auto outside = [](const std::string& flags, const char* phase) { return most(flags, &ProcessPhase::outside, phase); };
  for (const char* phase : {"generate", "train_actor"})
    EXPECT_EQ(outside("--enable_hybrid_engine", phase) - outside("", phase), workspace) << phase;
  EXPECT_EQ(outside("--enable_hybrid_engine --release_inference_cache", "train_actor"), outside("", "train_actor"));
  EXPECT_EQ(outside("--enable_hybrid_engine --release_inference_cache", "generate") - outside("", "generate"), workspace);
}

TEST(DeepSpeedChatPpo, TheHybridEngineGathersTheActorUnderStage3) {
  const std::string base = "--actor_zero_stage 3 --critic_zero_stage 3 ";
  const Bytes whole = peak(base + "--enable_hybrid_engine", "generate");
  const Bytes layers = peak(base + "--enable_hybrid_engine --unpin_actor_parameters", "generate");
  const Bytes shared = peak(base + "--enable_hybrid_engine --inference_tp_size 2 --tp_gather_partition_size 1", "generate");
  EXPECT_GT(whole, layers + 150'000'000);  // twelve layers of 7.1 million
  EXPECT_LT(shared, whole - 50'000'000);
  EXPECT_GT(peak(base + "--enable_hybrid_engine --inference_tp_size 2 --tp_gather_partition_size 12", "generate"), shared);
}

TEST(DeepSpeedChatPpo, EveryFlagChangesWhatItSays) {
  const std::string zero2 = "--actor_zero_stage 2 --critic_zero_stage 2 --max_prompt_seq_len 512 --max_answer_seq_len 16 ";
  EXPECT_GT(peak(zero2 + "--enable_ema"), peak(zero2));
  EXPECT_GT(peak(zero2 + "--compute_fp32_loss", "gather_logprobs"), peak(zero2, "gather_logprobs"));
  EXPECT_LT(peak(zero2 + "--per_device_training_batch_size 1", "train_critic"), peak(zero2, "train_critic"));
  EXPECT_GT(peak(zero2 + "--critic_dropout 0.1", "train_critic"), peak(zero2, "train_critic"));
  EXPECT_LT(peak(zero2 + "--critic_gradient_checkpointing", "train_critic"), peak(zero2, "train_critic"));
  EXPECT_LT(peak(zero2 + "--actor_lora_dim 8 --only_optimize_lora", "train_actor"), peak(zero2, "train_actor"));
  // Gradients that wait for the next batch's are there while it is generated.
  EXPECT_GT(peak("--gradient_accumulation_steps 2", "generate"), peak("", "generate"));
}

TEST(DeepSpeedChatPpo, FlagsWithoutEffectAreTold) {
  EXPECT_THAT(warnings_of(with("--release_inference_cache")), HasSubstr("release_inference_cache"));
  EXPECT_THAT(warnings_of(with("--critic_lora_dim 8 --critic_lora_module_name layers.x")), HasSubstr("nothing is adapted"));
  EXPECT_THAT(warnings_of(with("--actor_zero_stage 2 --offload_reference_model")), HasSubstr("offload_reference_model"));
  EXPECT_THAT(job_of(with("--align_overflow")).not_modelled, Contains(HasSubstr("align_overflow")));
}

TEST(DeepSpeedChatPpo, WhatCannotRunIsRefusedAtItsLine) {
  EXPECT_THAT(complaint(with("--offload --critic_zero_stage 0")), HasSubstr("run.sh:9: offload: expected actor_zero_stage"));
  EXPECT_THAT(complaint(with("--actor_zero_stage 2 --enable_hybrid_engine --inference_tp_size 2")), HasSubstr("inference_tp_size: expected 1"));
  EXPECT_THAT(complaint(with("--ppo_epochs 64 --per_device_training_batch_size 1")), HasSubstr("generation_batches: expected at most 64 updates"));
  EXPECT_THAT(complaint(with("--actor_zero_stage $STAGE")), HasSubstr("actor_zero_stage: expected"));
  EXPECT_THAT(complaint(with("--actor_model_name_or_path no/such")), HasSubstr("actor_model_name_or_path"));
  EXPECT_THAT(complaint(with("--dtype fp8")), HasSubstr("dtype: expected fp16 or bf16"));
}

/// What a knob writes, read again, is what it searched.
TEST(DeepSpeedChatPpo, KnobsWriteWhatTheySearch) {
  const ReadJob read = read_of(with("--enable_hybrid_engine --inference_tp_size 2 --generation_batches 2"));
  const Framework& framework = *find_framework("deepspeed-chat");
  const std::vector<Knob> knobs = framework.knobs(read);
  EXPECT_GE(knobs.size(), 12u);
  for (const Knob& knob : knobs)
    for (const std::string& value : knob.values) {
      const std::vector<Choice> choices = {{knob.name, value}};
      const Result<Job> searched = framework.with(read, choices);
      if (!searched) continue;
      const Result<std::vector<Setting>> settings = framework.settings_of(read, choices);
      ASSERT_TRUE(settings) << knob.name;
      const Result<std::string> written = framework.write(read, *settings, {});
      ASSERT_TRUE(written) << knob.name << ' ' << written.error().text();
      const Job again = job_of(*written);
      EXPECT_EQ(again.roles, searched->roles) << knob.name << '=' << value << '\n' << *written;
      EXPECT_EQ(again.engines, searched->engines) << knob.name << '=' << value;
      EXPECT_EQ(again.step, searched->step) << knob.name << '=' << value;
      EXPECT_EQ(again.batch, searched->batch) << knob.name << '=' << value;
    }
}

}  // namespace
}  // namespace headroom

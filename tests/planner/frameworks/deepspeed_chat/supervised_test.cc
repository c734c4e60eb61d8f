#include "planner/frameworks/deepspeed_chat/supervised.h"

#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/openrlhf/run.h"

namespace headroom {
namespace {

using test::read_launch;
using testing::Contains;
using testing::HasSubstr;

const std::string kSft =
    "deepspeed --num_gpus 2 main.py --data_split 2,4,4 --model_name_or_path facebook/opt-1.3b \\\n"
    "  --per_device_train_batch_size 2 --per_device_eval_batch_size 2 --max_seq_len 512 --dtype bf16 \\\n"
    "  --sft_only_data_path d --zero_stage ";
const std::string kReward =
    "deepspeed --num_gpus 2 main.py --data_split 2,4,4 --model_name_or_path facebook/opt-350m \\\n"
    "  --num_padding_at_beginning 1 --per_device_train_batch_size 2 --per_device_eval_batch_size 2 --dtype bf16 --zero_stage ";

Job job_of(const std::string& text) {
  const Result<ReadJob> read = read_launch(text);
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return read ? read->job : Job{};
}

std::string complaint(const std::string& text) {
  const Result<ReadJob> read = read_launch(text);
  return read ? "" : read.error().text();
}

const ProcessPhase& row_of(const Report& report, const std::string& phase) {
  const ProcessPhase* found = nullptr;
  for (const PhaseReport& row : report.devices.front().phases)
    if (row.phase == phase) found = &row.processes.front();
  EXPECT_NE(found, nullptr) << phase;
  return *found;
}

TEST(DeepSpeedChatSupervised, StepsAreToldApart) {
  const Job sft = job_of(kSft + "2");
  EXPECT_EQ(sft.framework, "deepspeed-chat");
  EXPECT_EQ(sft.algorithm, Algorithm::sft);
  EXPECT_EQ(sft.pools.front().gpus(), 2);
  EXPECT_EQ(sft.role("actor")->sharding.kind, ShardingKind::zero2);
  EXPECT_TRUE(sft.role("actor")->sharding.overlap_communication);
  const Job reward = job_of(kReward + "3 --offload --gradient_checkpointing");
  EXPECT_EQ(reward.algorithm, Algorithm::reward_model);
  const Role& role = *reward.role("actor");
  EXPECT_EQ(role.head, HeadKind::scalar);
  EXPECT_EQ(role.train.sequences, 4);  // chosen and rejected
  EXPECT_TRUE(role.sharding.offload_parameters);
  EXPECT_EQ(role.recompute.kind, RecomputeKind::full);
  const Job dpo = job_of(kReward + "3 --beta 0.1 --offload_reference_model");
  EXPECT_EQ(dpo.algorithm, Algorithm::dpo);
  EXPECT_EQ(job_of("deepspeed --num_gpus 1 main.py --model_name_or_path facebook/opt-125m --zero_stage 0").batch.mini_batch, 16);
  EXPECT_TRUE(dpo.role("ref")->sharding.offload_parameters);
  EXPECT_EQ(job_of("cd training/step2_reward_model_finetuning\n" + kReward + "0").algorithm, Algorithm::reward_model);
}

/// The tokenizer decides the table: rounded up to eight rows, and Llama's has a padding token.
TEST(DeepSpeedChatSupervised, TablesAreResized) {
  const auto rows = [](const std::string& model) {
    return job_of("deepspeed main.py --data_split 2,4,4 --zero_stage 3 --model_name_or_path " + model)
        .role("actor")
        ->model->decoder.vocabulary;
  };
  EXPECT_EQ(rows("facebook/opt-1.3b"), 50272);
  EXPECT_EQ(rows("gpt2"), 50264);
  EXPECT_EQ(rows("meta-llama/Llama-2-7b-hf"), 32008);
}

/// `--dropout 0.0` reaches OPT's names and none of GPT-2's.
TEST(DeepSpeedChatSupervised, DropoutIsOffWhereTheFlagReachesIt) {
  EXPECT_TRUE(job_of(kSft + "0").role("actor")->dropout);
  EXPECT_FALSE(job_of(kSft + "0 --dropout 0.0").role("actor")->dropout);
  EXPECT_TRUE(job_of("deepspeed main.py --data_split 2,4,4 --zero_stage 0 --dropout 0.0 --model_name_or_path gpt2")
                  .role("actor")
                  ->dropout);
}

/// Rows are taken to be padded unless it is said that none is.
TEST(DeepSpeedChatSupervised, FullRowsHaveNoMask) {
  const Result<ReadJob> full = read_launch(kSft + "0", {"headroom.full_rows=true"});
  ASSERT_TRUE(full) << full.error().text();
  EXPECT_FALSE(full->job.role("actor")->padded);
  EXPECT_TRUE(job_of(kSft + "0").role("actor")->padded);
}

TEST(DeepSpeedChatSupervised, AdaptersLeaveTheRestTrainingUnlessTold) {
  EXPECT_TRUE(job_of(kSft + "0 --lora_dim 16").role("actor")->lora->rest_trains);
  EXPECT_FALSE(job_of(kSft + "0 --lora_dim 16 --only_optimize_lora").role("actor")->lora->rest_trains);
  const auto states = [](const std::string& flags) {
    const Result<Report> report = simulate(job_of(kSft + "2 " + flags), *load_hardware("h100"));
    EXPECT_TRUE(report) << report.error().text();
    return row_of(*report, "train_actor").at_peak_allocated[Component::optimizer];
  };
  const Bytes all = states(""), some = states("--lora_dim 16"), adapters = states("--lora_dim 16 --only_optimize_lora");
  // Adam's states of the table, of positions and of the rest that no linear has: 8 bytes on two ranks.
  constexpr Bytes kTables = 8 * (50272 + 2050) * 2048 / 2;
  EXPECT_GT(all, some);
  EXPECT_GE(some - adapters, kTables);
  EXPECT_LT(some - adapters, kTables * 11 / 10);
}

TEST(DeepSpeedChatSupervised, EvaluationComesFirstAndHoldsTwoBatches) {
  const Result<Report> report = simulate(job_of(kSft + "0"), *load_hardware("h100"));
  ASSERT_TRUE(report) << report.error().text();
  // Two batches' logits and caches, and a loss in fp32 twice over.
  constexpr Bytes kLogits = 2 * Bytes{2} * 512 * 50272, kCache = 2 * Bytes{2} * 24 * 2 * 512 * 2048;
  const ProcessPhase& row = row_of(*report, "first_evaluation");
  EXPECT_GE(row.peak_allocated - row.allocated_start, 2 * kLogits + 2 * kCache + 2 * kLogits);
  EXPECT_LE(row.peak_allocated - row.allocated_start, 2 * kLogits + 2 * kCache + 8 * kLogits);
}

/// The reference is not told to leave its cache out: keys and values of its 24 layers stay with its logits.
TEST(DeepSpeedChatSupervised, DpoHoldsBothModelsOutputs) {
  const std::string dpo = "deepspeed --num_gpus 2 main.py --data_split 2,4,4 --model_name_or_path facebook/opt-1.3b \\\n"
                          "  --per_device_train_batch_size 2 --per_device_eval_batch_size 2 --max_seq_len 512 --dtype bf16 \\\n"
                          "  --beta 0.1 --zero_stage 0";
  const Job job = job_of(dpo);
  const Result<Report> report = simulate(job, *load_hardware("h100"));
  ASSERT_TRUE(report) << report.error().text();
  constexpr Bytes kLogits = 4 * Bytes{2} * 512 * 50272, kCache = 4 * Bytes{2} * 24 * 2 * 512 * 2048;
  const ProcessPhase& row = row_of(*report, "train_actor");
  Bytes first = 0;
  for (const PhaseReport& phase : report->devices.front().phases)
    if (phase.phase == "train_actor" && phase.step == 0) first = phase.processes.front().allocated_start;
  const auto held = static_cast<double>(row.allocated_end - first);
  const auto states = static_cast<double>(row.at_peak_allocated[Component::optimizer]);
  const double gradients = 2.0 * static_cast<double>(job.role("actor")->model->parameters());  // stage 0 keeps them
  EXPECT_NEAR(held - states - gradients, static_cast<double>(2 * kLogits + kCache), 0.1 * static_cast<double>(kCache));
  // Two batches of both models with both caches, while an evaluation's log-probs are formed.
  const ProcessPhase& evaluation = row_of(*report, "first_evaluation");
  EXPECT_GE(evaluation.peak_allocated - evaluation.allocated_start, 3 * (kLogits + kCache));
}

TEST(DeepSpeedChatSupervised, MicroBatchesAddUpWithoutRunningAllOfThem) {
  const Result<Report> eight = simulate(job_of(kReward + "2 --gradient_accumulation_steps 8"), *load_hardware("h100"));
  const Result<Report> three = simulate(job_of(kReward + "2 --gradient_accumulation_steps 3"), *load_hardware("h100"));
  ASSERT_TRUE(eight && three);
  EXPECT_EQ(row_of(*eight, "train_actor").peak_allocated, row_of(*three, "train_actor").peak_allocated);
}

TEST(DeepSpeedChatSupervised, WhatIsWrongIsSaidAtItsPlace) {
  EXPECT_THAT(complaint(kSft + "0 --offload"), HasSubstr("offload: expected zero_stage 1 to 3"));
  EXPECT_THAT(complaint(kSft + "4"), HasSubstr("run.sh:3: zero_stage"));
  EXPECT_THAT(complaint(kSft + "$STAGE"), HasSubstr("zero_stage: expected a value"));
  EXPECT_THAT(complaint(kSft + "0 --dtype fp8"), HasSubstr("dtype: expected fp16 or bf16"));
}

}  // namespace
}  // namespace headroom

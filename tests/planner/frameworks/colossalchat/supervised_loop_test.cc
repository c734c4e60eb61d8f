#include "planner/frameworks/colossalchat/supervised_loop.h"

#include <cmath>

#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/openrlhf/run.h"

namespace headroom {
namespace {

/// `release`: of ColossalAI; 0.4 runs Transformers 4.39, 0.5 runs 4.51.
Report report_of(const std::string& text, const std::string& release = "0.4.2") {
  const Result<ReadJob> read = test::read_launch(text, {"headroom.versions.colossalai=" + release});
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  const Result<Report> report = simulate(read->job, *load_hardware("h800"));
  EXPECT_TRUE(report) << (report ? "" : report.error().text());
  return report ? *report : Report{};
}

const ProcessPhase* last(const Report& report, const std::string& phase) {
  const ProcessPhase* found = nullptr;
  for (const PhaseReport& row : report.devices.front().phases)
    if (row.phase == phase) found = &row.processes.front();
  return found;
}

double peak_mib(const Report& report) {
  Bytes most = 0;
  for (const PhaseReport& row : report.devices.front().phases) most = std::max(most, row.processes.front().peak_allocated);
  return static_cast<double>(most) / static_cast<double>(kMiB);
}

/// A row of "GPU memory" that ColossalChat's README prints for Llama-2 7B, 2048 tokens, bf16, gradient checkpointing and
/// FlashAttention (ColossalAI's applications/ColossalChat/examples/README.md of July 2024): PyTorch's peak, in MiB.
struct Published {
  const char* program;
  const char* plugin;
  int gpus, batch;
  double mib;
};

const std::string kSimpo = "train_dpo.py --loss_type simpo_loss --disable_reference_model --length_normalization";

class PublishedPeaks : public testing::TestWithParam<Published> {};

TEST_P(PublishedPeaks, AreMet) {
  const Published& row = GetParam();
  const Report report = report_of(fmt::format(
      "colossalai run --nproc_per_node {} {} --pretrain meta-llama/Llama-2-7b-hf --plugin {} --batch_size {} --{} 2048 \\\n"
      "  --mixed_precision bf16 --grad_checkpoint --use_flash_attn --accumulation_steps 1",
      row.gpus, row.program, row.plugin, row.batch, std::string(row.program).find("sft") == std::string::npos ? "max_length" : "max_len"));
  EXPECT_NEAR(peak_mib(report), row.mib, row.mib * 0.025);
}

INSTANTIATE_TEST_SUITE_P(ColossalChat, PublishedPeaks,
                         testing::Values(Published{"train_sft.py", "zero2_cpu", 2, 4, 22457.98},
                                         Published{"train_sft.py", "zero2", 4, 16, 58082.30},
                                         Published{"train_dpo.py", "zero2_cpu", 2, 2, 36989.37},
                                         Published{"train_dpo.py", "zero2_cpu", 2, 4, 48081.67},
                                         Published{"train_dpo.py", "zero2", 4, 4, 67483.44},
                                         Published{kSimpo.c_str(), "zero2_cpu", 2, 4, 25705.26},
                                         Published{kSimpo.c_str(), "zero2", 4, 8, 56086.12},
                                         Published{"train_kto.py", "zero2_cpu", 2, 4, 38989.37},
                                         Published{"train_kto.py", "zero2_cpu", 4, 2, 32443.22},
                                         Published{"train_kto.py", "zero2", 4, 4, 59307.97}));

const std::string kSmall =
    " --plugin zero2 --batch_size 2 --max_length 512 --mixed_precision bf16 --use_flash_attn --accumulation_steps ";

/// Bytes of fp32 logits of `rows` sequences of 512 tokens over Qwen2.5's vocabulary.
double logits(double rows) {
  return rows * 512 * 151936 * 4;
}

/// The logits of a batch are there while the next ones are made, and both models' through the backward.
TEST(ColossalChatSupervised, KeepsItsBatchsLogits) {
  const std::string dpo = "colossalai run --nproc_per_node 2 train_dpo.py --pretrain Qwen/Qwen2.5-0.5B";
  const Report report = report_of(dpo + kSmall + "1");
  const auto held = [&](const char* phase) { return static_cast<double>(last(report, phase)->allocated_end); };
  const double start = static_cast<double>(last(report, "policy_forward")->allocated_start);
  // Logits of policy and reference before; the policy's table of log-probs after its forward.
  const Report without = report_of(dpo + " --disable_reference_model" + kSmall + "1");
  EXPECT_NEAR(start - static_cast<double>(last(without, "policy_forward")->allocated_start), logits(4) + 2.0 * 494e6, 0.01 * logits(4));
  EXPECT_NEAR(held("ref_logprob") - held("policy_forward"), 0, 0.001 * logits(4)) << "the old ones make room";
}

/// Bytes of a logit at most, while the policy's log-probs are formed: families whose heads give back what they computed
/// hold half as much.
TEST(ColossalChatSupervised, WidensLogitsAsTransformersOf2024) {
  const auto held = [](const char* model, double width) {
    const std::string text = fmt::format("colossalai run --nproc_per_node 2 train_dpo.py --disable_reference_model "
                                         "--pretrain {}", model);
    const Report report = report_of(text + kSmall + "1");
    const auto* row = last(report, "policy_forward");
    return static_cast<double>(row->at_peak_allocated[Component::logits]) / (4 * 512 * width);
  };
  // Logits, the table of one half and of the other, and that half's copy in order: in 16 bits, or all in fp32.
  EXPECT_NEAR(held("facebook/opt-350m", 50272), 2 + 1 + 1 + 1, 0.05);
  EXPECT_NEAR(held("Qwen/Qwen2.5-0.5B", 151936), 4 + 2 + 2 + 2, 0.05);
}

/// Later Transformers gives back what the head made.
TEST(ColossalChatSupervised, KeepsLogitsNarrowAsTransformersOf2025) {
  const Report report = report_of("colossalai run --nproc_per_node 2 train_dpo.py --disable_reference_model --pretrain "
                                  "Qwen/Qwen2.5-0.5B" + kSmall + "1", "0.5.0");
  const double held = static_cast<double>(last(report, "policy_forward")->at_peak_allocated[Component::logits]) / (4 * 512 * 151936.0);
  EXPECT_NEAR(held, 2 + 1 + 1 + 1, 0.05);
}

/// Since 0.4.5 DPO's reference is whole under DistributedDataParallel, whose buckets are as large.
TEST(ColossalChatSupervised, WrapsDposReferenceApart) {
  const std::string dpo = "colossalai run --nproc_per_node 2 train_dpo.py --pretrain Qwen/Qwen2.5-0.5B" + kSmall + "1";
  const auto built = [&](const char* release) {
    return static_cast<double>(last(report_of(dpo, release), "init")->allocated_end);
  };
  EXPECT_NEAR(built("0.4.5") - built("0.4.2"), 2 * 494e6, 0.02 * 494e6);
}

/// So it is with PPO's scoring: parts of both models' logits, then joined.
TEST(ColossalChatSupervised, ScoresWithWideLogitsToo) {
  const auto held = [](const std::string& model, double width) {
    const Report report = report_of("colossalai run --nproc_per_node 2 train_ppo.py --plugin zero2 --mixed_precision bf16 "
                                    "--experience_batch_size 4 --train_batch_size 4 --max_length 512 --max_seq_len 128 "
                                    "--num_collect_steps 1 --num_update_steps 1 --use_flash_attn --pretrain " +
                                    model + " --rm_pretrain " + model);
    const ProcessPhase* row = last(report, "gather_logprobs");
    return static_cast<double>(row->peak_allocated - row->allocated_start) / (4 * 512 * width);
  };
  EXPECT_NEAR(held("Qwen/Qwen2.5-0.5B", 151936) / held("facebook/opt-350m", 50272), 2, 0.1);
}

/// Of many micro-batches three are run, whose seconds stand for all.
TEST(ColossalChatSupervised, RunsThreeOfManyMicroBatches) {
  const std::string orpo = "colossalai run --nproc_per_node 2 train_orpo.py --pretrain Qwen/Qwen2.5-0.5B";
  const auto seconds = [&](const char* accumulation) {
    double sum = 0;
    const Report report = report_of(orpo + kSmall + accumulation);
    for (const PhaseReport& row : report.devices.front().phases)
      if (row.step == 1 && row.phase == "policy_forward") sum += row.seconds;
    return sum;
  };
  EXPECT_NEAR(seconds("8"), 8 * seconds("1"), 0.2 * seconds("8"));
}

TEST(ColossalChatSupervised, AdaptersAreToldByRankOrFile) {
  const Result<ReadJob> read = test::read_launch("colossalai run --nproc_per_node 2 train_sft.py --pretrain Qwen/Qwen2.5-0.5B "
                                                 "--plugin zero2 --lora_rank 8 --grad_checkpoint");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.versions.framework, "0.4.2") << "the last one with the flag";
  EXPECT_EQ(read->job.role("actor")->lora->rank, 8);
  EXPECT_EQ(read->job.role("actor")->recompute.kind, RecomputeKind::full);
}

}  // namespace
}  // namespace headroom

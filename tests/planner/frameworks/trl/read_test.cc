#include "planner/frameworks/trl/read.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "planner/frameworks/settings/table.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/openrlhf/run.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using test::read_launch;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kGrpo =
    "trl grpo --model_name_or_path Qwen/Qwen2.5-0.5B-Instruct --dataset_name d --output_dir o ";

ReadJob read_of(const std::string& text, std::vector<std::string> overrides = {}) {
  Result<ReadJob> read = read_launch(text, std::move(overrides));
  EXPECT_TRUE(read) << text << ": " << (read ? "" : read.error().text());
  return read ? std::move(*read) : ReadJob{};
}

Job job_of(const std::string& text, std::vector<std::string> overrides = {}) {
  return read_of(text, std::move(overrides)).job;
}

std::string complaint(const std::string& text, std::vector<std::string> overrides = {}) {
  const Result<ReadJob> read = read_launch(text, std::move(overrides));
  return read ? "" : read.error().text();
}

Bytes peak(const Job& job, const std::string& phase) {
  const Result<Report> report = simulate(job, *load_hardware("h200"));
  EXPECT_TRUE(report) << (report ? "" : report.error().text());
  Bytes out = 0;
  if (report)
    for (const PhaseReport& row : report->devices.front().phases)
      if (row.phase == phase) out = std::max(out, row.processes.front().peak_allocated);
  return out;
}

/// A model of few layers, so that programs are quick.
constexpr const char* kSmall =
    R"({"model_type": "qwen2", "vocab_size": 2048, "hidden_size": 128, "intermediate_size": 256,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": true,
  "architectures": ["Qwen2ForCausalLM"]})";

std::string small_model() {
  const std::filesystem::path folder = std::filesystem::path(test::scratch()) / "trl-small";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << kSmall;
  return folder.string();
}

TEST(TrlRead, ReleasesHaveTheirDefaults) {
  const Job today = job_of(kGrpo);
  EXPECT_EQ(today.versions.framework, "1.9.0");
  const Role& policy = *today.role("actor");
  EXPECT_EQ(policy.precision.weights, DType::fp32);  // since 0.27
  EXPECT_TRUE(policy.precision.autocast);
  EXPECT_EQ(policy.recompute.kind, RecomputeKind::full);  // since 0.22
  EXPECT_FALSE(policy.recompute.reentrant);
  EXPECT_EQ(today.role("ref"), nullptr);  // beta 0 since 0.19
  EXPECT_EQ(policy.train.sequences, 8);
  EXPECT_THAT(today.assumptions, Contains(HasSubstr("prompts of up to 512 tokens")));

  const Job older = job_of(kGrpo + "--max_prompt_length 256 --vllm_device auto");
  EXPECT_EQ(older.versions.framework, "0.17.0");
  EXPECT_NE(older.role("ref"), nullptr);
  EXPECT_EQ(older.role("actor")->recompute.kind, RecomputeKind::none);
  EXPECT_FALSE(older.role("actor")->precision.autocast);  // bf16 only since 0.19
  EXPECT_EQ(older.batch.prompt_length, 256);
  EXPECT_THAT(older.assumptions, Contains("TRL 0.17.0 (max_prompt_length, vllm_device)"));
}

TEST(TrlRead, AReleaseMayBeStated) {
  const Job job = job_of(kGrpo, {"headroom.versions.trl=0.20.0"});
  EXPECT_EQ(job.versions.framework, "0.20.0");
  EXPECT_EQ(job.role("actor")->recompute.kind, RecomputeKind::none);
  EXPECT_EQ(job.batch.prompt_length, 512);
}

TEST(TrlRead, AccelerateSaysHowWeightsLie) {
  const std::string trained = " --num_processes 4";
  const auto kind = [&](const std::string& config) {
    return job_of(kGrpo + "--beta 0.1 --accelerate_config " + config + trained);
  };
  EXPECT_EQ(kind("multi_gpu").role("actor")->sharding.kind, ShardingKind::data_parallel);
  EXPECT_EQ(kind("multi_gpu").role("ref")->sharding.kind, ShardingKind::none);
  EXPECT_EQ(kind("multi_gpu").pools.front().gpus(), 4);
  EXPECT_EQ(kind("single_gpu").pools.front().gpus(), 1);  // NO is one process
  const Job two = kind("zero2"), three = kind("zero3");
  EXPECT_EQ(two.role("actor")->sharding.kind, ShardingKind::zero2);
  EXPECT_EQ(two.role("ref")->sharding.kind, ShardingKind::zero0);
  EXPECT_EQ(two.role("actor")->precision.weights, DType::bf16);
  EXPECT_FALSE(two.role("actor")->precision.autocast);
  EXPECT_EQ(three.role("ref")->sharding.kind, ShardingKind::zero3);
  EXPECT_TRUE(three.role("actor")->sharding.gathers_to_generate);
  const Job fsdp1 = kind("fsdp1"), fsdp2 = kind("fsdp2");
  EXPECT_TRUE(fsdp1.role("actor")->precision.autocast);
  EXPECT_EQ(fsdp2.role("actor")->precision.weights, DType::fp32);
  EXPECT_FALSE(fsdp2.role("actor")->precision.autocast);
  EXPECT_FALSE(fsdp2.role("ref")->sharding.layers_wrapped);  // one unit
  EXPECT_TRUE(fsdp1.role("ref")->sharding.layers_wrapped);
}

TEST(TrlRead, LaunchersFlagsGoBeforeTheirFile) {
  const std::string rest =
      " examples/scripts/ppo/ppo.py --model_name_or_path EleutherAI/pythia-1b --output_dir o";
  const ReadJob read = read_of(
      "accelerate launch --config_file examples/accelerate_configs/deepspeed_zero3.yaml "
      "--num_processes 2 --zero_stage 2" +
      rest);
  EXPECT_EQ(read.job.role("actor")->sharding.kind, ShardingKind::zero2);
  EXPECT_EQ(read.job.pools.front().gpus(), 2);
  EXPECT_THAT(read.job.assumptions, Contains(HasSubstr("TRL's own configuration of that name")));
  for (const char* role : {"actor", "critic", "ref", "reward"})
    EXPECT_NE(read.job.role(role), nullptr) << role;
  EXPECT_EQ(read.job.role("actor")->recompute.kind, RecomputeKind::none);  // PPO's loop has none
  EXPECT_EQ(job_of("torchrun --nproc_per_node 4" + rest).pools.front().gpus(), 4);
  EXPECT_EQ(job_of("python" + rest).pools.front().gpus(), 1);
}

TEST(TrlRead, EnginesBesideThePolicyAndOnTheirOwn) {
  const Job beside = job_of(kGrpo +
                            "--use_vllm --vllm_mode colocate --vllm_enable_sleep_mode "
                            "--steps_per_generation 4 --accelerate_config multi_gpu --num_processes 2");
  ASSERT_EQ(beside.engines.size(), 1u);
  EXPECT_EQ(beside.engines.front().max_sequences, 32);
  EXPECT_EQ(beside.engines.front().sleep_level, 2);
  EXPECT_EQ(beside.processes.front().engine, "rollout");  // in the trainer's own process
  EXPECT_EQ(beside.pools.size(), 1u);
  const Job apart =
      job_of(kGrpo + "--use_vllm --vllm_mode server", {"headroom.server_tensor_parallel_size=2"});
  ASSERT_EQ(apart.pools.size(), 2u);
  EXPECT_EQ(apart.pools[1].gpus(), 2);
  EXPECT_EQ(apart.engines.front().utilization, 0.9);
  EXPECT_EQ(apart.engines.front().sleep_level, 0);
}

TEST(TrlRead, AsTrlRefuses) {
  EXPECT_THAT(complaint(kGrpo + "--num_generations 3"),
              HasSubstr("run.sh:1: num_generations: expected a divisor of the 8 completions"));
  EXPECT_THAT(complaint(kGrpo + "--steps_per_generation 2 --generation_batch_size 16"),
              HasSubstr("found both"));
  EXPECT_THAT(complaint(kGrpo + "--generation_batch_size 12 --num_generations 4"),
              HasSubstr("expected a multiple of the 8"));
  EXPECT_THAT(complaint(kGrpo + "--use_vllm --vllm_mode colocate --vllm_tensor_parallel_size 3 "
                                "--accelerate_config multi_gpu --num_processes 4"),
              HasSubstr("vllm_tensor_parallel_size: expected a divisor of the 4 processes"));
  EXPECT_THAT(
      complaint(kGrpo + "--gradient_accumulation_steps 2 --accelerate_config zero1 --num_processes 2"),
      HasSubstr("expected the trainer's gradient_accumulation_steps (2)"));
  EXPECT_THAT(complaint(kGrpo + "--num_processes 2 --use_fsdp --fsdp_activation_checkpointing true"),
              HasSubstr("fsdp_activation_checkpointing: expected false with gradient_checkpointing"));
  EXPECT_THAT(complaint("trl kto --model_name_or_path Qwen/Qwen2.5-0.5B"),
              HasSubstr("run.sh:1: TRL: the trainer of kto is not read"));
  EXPECT_THAT(complaint(kGrpo + "--config nowhere/x.yaml"),
              HasSubstr("config: expected a file, found none of nowhere/x.yaml"));
  EXPECT_THAT(complaint("accelerate launch train_grpo.py"),
              HasSubstr("model_name_or_path: no model is given"));
}

TEST(TrlRead, ScriptsNamesSayTheirTrainers) {
  const std::string words = " --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir o\n";
  EXPECT_EQ(job_of("accelerate launch -m trl.scripts.rloo" + words).algorithm, job_of("trl rloo" + words).algorithm);
  EXPECT_THAT(complaint("python examples/scripts/sdpo.py" + words), HasSubstr("the trainer of sdpo is not read"));
}

TEST(TrlRead, PicturesLeaveTheVerdictOpen) {
  const std::string words = " --model_name_or_path Qwen/Qwen2.5-VL-3B-Instruct --output_dir o\n";
  EXPECT_THAT(job_of("python sft_vlm.py" + words).not_modelled, testing::Contains(HasSubstr("what pictures take")));
  EXPECT_TRUE(job_of("python sft.py" + words).not_modelled.empty());
}

TEST(TrlRead, MistypedKeysAreNamed) {
  const ReadJob read = read_of(kGrpo + "--max_completion_lenght 512");
  ASSERT_FALSE(read.warnings.empty());
  EXPECT_THAT(read.warnings.front().text(), HasSubstr("max_completion_length"));
}

TEST(TrlRead, TrainersOfAYamlAreToldByTheirKeys) {
  const auto trainer = [](const std::string& text) {
    return read_job_text("model_name_or_path: Qwen/Qwen2.5-0.5B\noutput_dir: o\n" + text, "run.yaml", {});
  };
  EXPECT_EQ(trainer("num_generations: 4\n")->job.algorithm, Algorithm::grpo);
  EXPECT_EQ(trainer("precompute_ref_log_probs: true\n")->job.algorithm, Algorithm::dpo);
  EXPECT_EQ(trainer("packing: false\n")->job.algorithm, Algorithm::sft);
  EXPECT_EQ(trainer("headroom: {trainer: reward}\n")->job.algorithm, Algorithm::reward_model);
  EXPECT_THAT(trainer("learning_rate: 1\n").error().text(), HasSubstr("headroom.trainer"));
}

TEST(TrlRead, DeepspeedFilesSayTheirSizes) {
  const std::filesystem::path path = std::filesystem::path(test::scratch()) / "trl-ds.json";
  std::ofstream(path) << R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
    "stage3_param_persistence_threshold": 5, "offload_optimizer": {"device": "cpu", "pin_memory": true}},
    "gradient_accumulation_steps": "auto"})";
  const Job job = job_of(kGrpo + "--num_processes 2 --deepspeed " + path.string());
  const Sharding& sharding = job.role("actor")->sharding;
  EXPECT_EQ(sharding.kind, ShardingKind::zero3);
  EXPECT_EQ(sharding.reduce_bucket, 896 * 896);
  EXPECT_EQ(sharding.prefetch_bucket, 50'000'000);
  EXPECT_EQ(sharding.persistence_threshold, 5);
  EXPECT_TRUE(sharding.offload_optimizer);
  EXPECT_TRUE(sharding.pin_memory);
}

// --- Programs

std::string run_of(const std::string& trainer, const std::string& more) {
  return "trl " + trainer + " --model_name_or_path " + small_model() + " --output_dir o --save_strategy no " +
         more;
}

TEST(TrlPrograms, DpoKeepsBothModelsLogits) {
  const std::string words = "--per_device_train_batch_size 2 --max_length 256 ";
  const Bytes both = peak(job_of(run_of("dpo", words)), "loss_forward");
  const Bytes before = peak(job_of(run_of("dpo", words + "--precompute_ref_log_probs")), "loss_forward");
  const Bytes logits = 2 * 2 * 256 * 2048 * 4;  // of one model, in fp32
  EXPECT_GE(both - before, logits);
  EXPECT_EQ(job_of(run_of("dpo", words + "--precompute_ref_log_probs")).role("ref"), nullptr);
}

/// The pass runs while the trainer is made (since 0.29) with the batch of training, or as training begins.
TEST(TrlPrograms, PrecomputedLogProbsComeFirst) {
  const std::string words = "--per_device_train_batch_size 2 --max_length 256 --precompute_ref_log_probs ";
  const Job now = job_of(run_of("dpo", words)), before = job_of(run_of("dpo", words), {"headroom.versions.trl=0.28.0"});
  ASSERT_EQ(now.start.size(), 2u);
  EXPECT_EQ(now.start[0].name, "precompute_ref_logprob");
  EXPECT_EQ(now.start[0].within, "init");
  EXPECT_EQ(now.role("actor")->forward.sequences, 4);
  ASSERT_EQ(before.start.size(), 3u);
  EXPECT_EQ(before.start[1].name, "precompute_ref_logprob");
  EXPECT_TRUE(before.start[1].within.empty());
  EXPECT_EQ(job_of(run_of("dpo", words + "--precompute_ref_batch_size 8")).role("actor")->forward.sequences, 16);
  const Bytes logits = 2 * 2 * 256 * 2048 * 4;
  EXPECT_GE(peak(now, "init"), logits);
}

/// Transformers looks for unused parameters where nothing is recomputed, or where it is told to.
TEST(TrlRead, UnusedParametersAreLookedForByDefaultWithoutCheckpoints) {
  const auto looks = [](const std::string& more) {
    return job_of("accelerate launch --multi_gpu --num_processes 2 sft.py --model_name_or_path " + small_model() + " " + more)
        .role("actor")
        ->sharding.finds_unused;
  };
  EXPECT_FALSE(looks("--gradient_checkpointing true"));
  EXPECT_TRUE(looks("--gradient_checkpointing false"));
  EXPECT_TRUE(looks("--use_peft --lora_r 8"));
  EXPECT_FALSE(looks("--gradient_checkpointing false --ddp_find_unused_parameters false"));
}

TEST(TrlPrograms, ChunksOfSftSpareTheLogits) {
  const std::string words = "--per_device_train_batch_size 4 --max_length 1024 ";
  const Bytes whole = peak(job_of(run_of("sft", words + "--loss_type nll")), "loss_forward");
  const Bytes chunks = peak(job_of(run_of("sft", words + "--loss_type chunked_nll")), "loss_forward");
  const Bytes logits = Bytes{4} * 1024 * 2048 * 4;
  EXPECT_GT(whole, chunks + 2 * logits);
  EXPECT_EQ(
      peak(job_of(run_of("sft", words)), "backward"),
      peak(job_of(run_of("sft", words + "--loss_type chunked_nll")), "backward"));  // the default since 1.6
}

TEST(TrlPrograms, RewardModelsHaveNoLogits) {
  const Job job = job_of(run_of("reward", "--per_device_train_batch_size 2 --max_length 512"));
  EXPECT_EQ(job.role("actor")->head, HeadKind::scalar);
  EXPECT_LT(peak(job, "loss_forward"),
            peak(job_of(run_of("sft", "--per_device_train_batch_size 4 --max_length 512 --loss_type nll")),
                 "loss_forward"));
}

TEST(TrlPrograms, EqualMicroBatchesStandForEachOther) {
  // Sixteen of them are run as three, with the seconds of all.
  const std::string words =
      "--per_device_train_batch_size 1 --max_length 128 --loss_type nll --gradient_accumulation_steps ";
  const auto seconds = [&](const std::string& accum) {
    const Result<Report> report = simulate(job_of(run_of("sft", words + accum)), *load_hardware("h100"));
    double out = 0;
    for (const PhaseReport& row : report->devices.front().phases)
      if (row.step == 1 && (row.phase == "loss_forward" || row.phase == "backward")) out += row.seconds;
    return out;
  };
  EXPECT_NEAR(seconds("16") / seconds("3"), 16.0 / 3, 0.3);
  EXPECT_EQ(peak(job_of(run_of("sft", words + "16")), "train_actor"),
            peak(job_of(run_of("sft", words + "5")), "train_actor"));
}

TEST(TrlPrograms, EveryTrainerRunsUnderEveryLauncher) {
  for (const char* trainer : {"grpo --num_generations 4 --beta 0.1", "rloo", "dpo", "sft", "reward"})
    for (const char* launcher : {"single_gpu", "multi_gpu", "zero1", "zero2", "zero3", "fsdp1", "fsdp2"})
      for (const char* more : {"", "--use_peft", "--no_gradient_checkpointing"}) {
        const std::string name(trainer);
        const bool online = name.starts_with("grpo") || name.starts_with("rloo");
        const Job job = job_of(
            run_of(name, std::string(online ? "--max_completion_length 16 " : "--max_length 64 ") +
                             "--per_device_train_batch_size 4 --num_processes 2 "
                             "--accelerate_config " +
                             launcher + " " + more),
            online ? std::vector<std::string>{"headroom.prompt_length=16"} : std::vector<std::string>{});
        EXPECT_GT(peak(job, "train_actor"), 0) << trainer << " " << launcher << " " << more;
      }
}

/// Two engines share PPO's backward: the value model's gradients are reduced with each micro-batch, too, and don't
/// wait in its bucket twice.
TEST(TrlPrograms, ValueModelsReduceTheirGradientsWithThePolicys) {
  const std::string path = std::filesystem::path(test::scratch()) / "trl-joint.json";
  for (const char* stage : {"1", "2", "3"})
    for (const char* offload : {"none", "cpu"}) {
      // The bucket holds the gradients of some micro-batches, were they to wait.
      std::ofstream(path) << R"({"zero_optimization": {"reduce_bucket_size": 2000000, "stage": )" << stage
                          << R"(, "offload_optimizer": {"device": ")" << offload << R"("}}, "bf16": {"enabled": true}})";
      const Job job = job_of(
          "accelerate launch --use_deepspeed --deepspeed_config_file " + path +
              " --num_processes 2 ppo.py --model_name_or_path " + small_model() + " --sft_model_path " + small_model() +
              " --reward_model_path " + small_model() +
              " --output_dir o --save_strategy no --per_device_train_batch_size 2 --gradient_accumulation_steps 8"
              " --num_mini_batches 1 --response_length 16",
          {"headroom.prompt_length=16"});
      EXPECT_GT(peak(job, "optimizer_step"), 0) << stage << " " << offload;
    }
}

TEST(TrlPrograms, DataParallelGradientsHaveBuckets) {
  const std::string words =
      "--max_length 64 --loss_type nll --per_device_train_batch_size 1 --accelerate_config multi_gpu "
      "--num_processes ";
  const Job one = job_of(run_of("sft", words + "1")), two = job_of(run_of("sft", words + "2"));
  const Bytes gradients = 4 * one.role("actor")->model->parameters();
  EXPECT_NEAR(static_cast<double>(peak(two, "optimizer_step") - peak(one, "optimizer_step")),
              static_cast<double>(gradients), 0.02 * static_cast<double>(gradients));
}

TEST(TrlPrograms, LigersLossHoldsItsGradientsFromTheForwardOn) {
  const std::string words = "--per_device_train_batch_size 4 --max_length 1024 ";
  const Job liger = job_of(run_of("sft", words + "--use_liger_kernel"));
  EXPECT_TRUE(liger.role("actor")->fused_kernels);
  EXPECT_THAT(liger.not_modelled, IsEmpty());
  EXPECT_LT(peak(liger, "train_actor"),
            peak(job_of(run_of("sft", words + "--loss_type nll")), "train_actor"));
}

TEST(TrlPrograms, EvaluationsHaveABatchOfTheirOwn) {
  for (const char* trainer : {"sft --loss_type nll", "reward", "dpo"}) {
    const std::string words = std::string(trainer) + " --max_length 256 --per_device_train_batch_size 1 ";
    const Job job =
        job_of(run_of(words, "--eval_strategy steps --eval_steps 10 --per_device_eval_batch_size 16"));
    EXPECT_GT(peak(job, "validate"), peak(job, "loss_forward")) << trainer;
    EXPECT_EQ(peak(job_of(run_of(words, "")), "validate"), 0) << trainer;
  }
}

TEST(TrlPrograms, Zero3GathersToGenerate) {
  const std::string words = "--max_completion_length 16 --accelerate_config zero3 --num_processes 2 ";
  const Bytes gathered = peak(job_of(run_of("grpo", words)), "generate");
  const Bytes spread = peak(job_of(run_of("grpo", words + "--ds3_gather_for_generation false")), "generate");
  EXPECT_GT(gathered, spread);
}

TEST(TrlPrograms, Zero3SpreadsWeightsAsTheyAreMade) {
  const std::string words =
      "trl sft --model_name_or_path Qwen/Qwen2.5-1.5B --output_dir o --save_strategy no --max_length 64 "
      "--accelerate_config zero3 --num_processes 8 --use_peft ";
  const Job spread = job_of(words), whole = job_of(words + "--zero3_init_flag false");
  const Bytes weights = 2 * spread.role("actor")->model->parameters();
  EXPECT_GE(peak(whole, "init") - peak(spread, "init"), weights / 2);
  // Where tensors lie after it changes blocks' remainders alone.
  EXPECT_NEAR(static_cast<double>(peak(whole, "backward")), static_cast<double>(peak(spread, "backward")), 16 * kMiB);
}

TEST(TrlPrograms, Fsdp2GathersAReferenceWhole) {
  const Job whole = job_of(run_of("dpo", "--max_length 64 --accelerate_config fsdp2 --num_processes 8"));
  Job layers = whole;
  for (Role& role : layers.roles) role.sharding.layers_wrapped = true;
  EXPECT_GT(peak(whole, "ref_forward"), peak(layers, "ref_forward"));
}

// --- Writing

TEST(TrlWrite, ACommandKeepsItsOtherWords) {
  const ReadJob read = read_of("# mine\n" + kGrpo + "--lora_r 8 \\\n  --gradient_checkpointing\n");
  const Result<std::string> text = trl::write(
      read, std::vector<Setting>{{"gradient_checkpointing", "false"}, {"accelerate.zero_stage", "3"}}, {});
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "# mine\n" + kGrpo + "--lora_r 8 \\\n  --gradient_checkpointing false --zero_stage 3\n");
}

TEST(TrlWrite, LaunchersFlagsStandBeforeTheProgram) {
  const std::string words = " --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir o";
  const ReadJob read =
      read_of("accelerate launch --zero_stage 2 --use_deepspeed trl/scripts/sft.py" + words + "\n");
  const Result<std::string> text = trl::write(
      read, std::vector<Setting>{{"accelerate.zero_stage", "3"}, {"accelerate.offload_param_device", "cpu"}},
      {});
  ASSERT_TRUE(text);
  EXPECT_EQ(*text,
            "accelerate launch --zero_stage 3 --use_deepspeed --offload_param_device cpu trl/scripts/sft.py" +
                words + "\n");
}

TEST(TrlWrite, WholeCopiesCanBecomeZero) {
  const std::string words = " --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir o --bf16";
  const ReadJob read = read_of("accelerate launch --num_processes 4 trl/scripts/sft.py" + words + "\n");
  const std::vector<Choice> choice{{"sharding", "3"}};
  const Result<Job> spread = trl::with(read, choice);
  ASSERT_TRUE(spread) << spread.error().text();
  EXPECT_EQ(read.job.role("actor")->sharding.kind, ShardingKind::data_parallel);
  EXPECT_EQ(spread->role("actor")->sharding.kind, ShardingKind::zero3);
  const Result<std::string> text = trl::write(read, *trl::settings_for(read, choice), {});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_EQ(*text, "accelerate launch --num_processes 4 --use_deepspeed --zero_stage 3 trl/scripts/sft.py" + words + "\n");
  // torchrun has no such flags.
  for (const Knob& knob : trl::knobs(read_of("torchrun --nproc_per_node 4 trl/scripts/sft.py" + words + "\n")))
    EXPECT_NE(knob.name, "sharding");
}

TEST(TrlRead, AFlagThatIsTrueOrFalseNeedsNoValue) {
  const std::string sft = "trl sft --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir o --num_processes 2 ";
  EXPECT_EQ(job_of(sft + "--bf16 --max_length 64"), job_of(sft + "--max_length 64 --bf16 true"));
  EXPECT_THAT(complaint(sft + "--optim --max_length 64"), HasSubstr("optim: expected a value"));
}

TEST(TrlWrite, ACommandLineBecomesAScript) {
  JobOptions options;
  options.words = {"trl", "sft", "--model_name_or_path", "Qwen/Qwen2.5-0.5B", "--output_dir", "a b"};
  const Result<ReadJob> read = read_job(std::vector<std::string>{"--"}, options);
  ASSERT_TRUE(read) << read.error().text();
  const Result<std::string> text = trl::write(*read, std::vector<Setting>{{"loss_type", "nll"}}, {});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_EQ(
      *text,
      "trl sft \\\n  --model_name_or_path Qwen/Qwen2.5-0.5B \\\n  --output_dir 'a b' --loss_type nll\n");
}

TEST(TrlWrite, FilesOfALaunchGoIntoOneYaml) {
  const std::filesystem::path folder = test::scratch();
  std::ofstream(folder / "a.yaml") << "distributed_type: DEEPSPEED\nnum_processes: 2\nmixed_precision: bf16\n"
                                      "deepspeed_config: {zero_stage: 3}\n";
  std::ofstream(folder / "t.yaml")
      << "model_name_or_path: Qwen/Qwen2.5-0.5B\noutput_dir: o\npacking: false\n";
  const std::vector<std::string> paths = {(folder / "a.yaml").string(), (folder / "t.yaml").string()};
  const Result<ReadJob> read = read_job(paths, {});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.role("actor")->sharding.kind, ShardingKind::zero3);
  const Result<std::string> text = trl::write(*read, {}, {});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_THAT(*text, HasSubstr("use_deepspeed: true"));
  EXPECT_THAT(*text, HasSubstr("zero_stage: 3"));
  Result<ReadJob> again = read_job_text(*text, paths.back(), {});
  ASSERT_TRUE(again) << again.error().text();
  again->job.assumptions = read->job.assumptions;
  EXPECT_TRUE(again->job == read->job);
}

}  // namespace
}  // namespace headroom

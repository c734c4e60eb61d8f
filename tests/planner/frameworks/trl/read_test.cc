#include "planner/frameworks/trl/read.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/case_reading.h"

namespace headroom {
namespace {

constexpr const char* kCase = R"({
  "trainer": "grpo", "batch": 4, "num_generations": 4, "prompt": 16, "response": 8, "steps": 2,
  "model": {"model_type": "qwen2", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
            "tie_word_embeddings": true}, "name": "small"})";

Report simulated(std::vector<std::string> overrides) {
  const Result<ReadJob> read = test::read_case(kCase, std::move(overrides));
  EXPECT_TRUE(read) << read.error().text();
  const Result<Report> report = simulate(read->job, {});
  EXPECT_TRUE(report) << report.error().text();
  return *report;
}

/// Names of a step's rows, in order.
std::vector<std::string> rows(const Report& report, int step) {
  std::vector<std::string> out;
  for (const PhaseReport& row : report.devices[0].phases)
    if (row.step == step) out.push_back(row.phase);
  return out;
}

const ProcessPhase& row(const Report& report, const std::string& phase, int step) {
  for (const PhaseReport& candidate : report.devices[0].phases)
    if (candidate.phase == phase && candidate.step == step) return candidate.processes[0];
  ADD_FAILURE() << "no phase " << phase << " in step " << step;
  static const ProcessPhase none;
  return none;
}

using Names = std::vector<std::string>;

TEST(Trl, IsDetectedByItsTrainer) {
  const Result<ReadJob> read = test::read_case(kCase);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.framework, "trl");
  EXPECT_EQ(read->job.batch.sequences(), 4);
}

TEST(Trl, ReadsOnlyTheCaseOfARecording) {
  test::expect_only_the_case_is_read(kCase, R"("phases": [{"step": "x"}], "args": null)");
}

TEST(Trl, ErrorsNameTheKey) {
  test::expect_refused(kCase, {{"trainer=dpo", "trainer"},
                               {"dtype=float64", "dtype"},
                               {"batch=0", "batch"},
                               {"num_generations=3", "num_generations"},
                               {"beta=-1", "beta"},
                               {"model.model_type=none", "model.model_type"},
                               {"use_vllm=true", "use_vllm"},
                               {"use_liger_kernel=true", "use_liger_kernel"},
                               {"fp16=true", "fp16"},
                               {"torch_empty_cache_steps=1", "torch_empty_cache_steps"},
                               {"temperature=0.7", "temperature"},
                               {"loss_type=cispo", "loss_type"},
                               {"optim=adafactor", "optim"},
                               {"lora_targets=q_proj", "lora_targets"}});
}

TEST(Trl, CompletionsAreMadeForAWholeAccumulation) {
  const Report report = simulated({"accum=2", "num_iterations=2", "steps=4"});
  const Names with = {"generate", "train_actor"}, without = {"train_actor"};
  for (int step = 0; step < 8; ++step)
    EXPECT_EQ(rows(report, step), step % 4 == 0 ? with : without) << "step " << step;
}

TEST(Trl, ReadsTheNamesOfGrpoConfigToo) {
  const Job own =
      test::read_case(kCase, {"batch=8", "accum=2", "response=12", "steps=4", "grad_ckpt=false"})->job;
  const Job config =
      test::read_case(kCase, {"per_device_train_batch_size=8", "gradient_accumulation_steps=2",
                              "max_completion_length=12", "max_steps=4", "gradient_checkpointing=false"})
          ->job;
  EXPECT_EQ(own.batch, config.batch);
  EXPECT_EQ(own.roles[0].train.sequences, config.roles[0].train.sequences);
  EXPECT_EQ(own.roles[0].recompute.kind, config.roles[0].recompute.kind);
  EXPECT_EQ(own.steps, config.steps);
}

TEST(Trl, OneGenerationMayFillSeveralOptimizerSteps) {
  const Report report = simulated({"steps_per_generation=2", "steps=4"});
  const Names with = {"generate", "train_actor"}, without = {"train_actor"};
  for (int step = 0; step < 4; ++step)
    EXPECT_EQ(rows(report, step), step % 2 == 0 ? with : without) << "step " << step;
}

TEST(Trl, SettingsHaveTheirEffects) {
  const auto peak = [](std::vector<std::string> changes) {
    return row(simulated(std::move(changes)), "train_actor", 1).peak_allocated;
  };
  // The foreach optimizer copies all parameters for a moment, the fused one keeps its counters on the device.
  EXPECT_NE(peak({"optim=adamw_torch"}), peak({}));
  EXPECT_LT(peak({"lora=4", "lora_targets=q_proj"}), peak({"lora=4"}));
  EXPECT_NE(peak({"bf16=false"}), peak({}));
}

TEST(Trl, AReferenceHasItsRow) {
  EXPECT_EQ(rows(simulated({"beta=0.04"}), 0), (Names{"generate", "ref_logprob", "train_actor"}));
  // Adapters off: no second model.
  EXPECT_LT(row(simulated({"beta=0.04", "lora=4"}), "init", -1).allocated_end,
            row(simulated({"beta=0.04"}), "init", -1).allocated_end * 3 / 4);
}

TEST(Trl, ATrainingStepCoversItsRollout) {
  const Report report = simulated({});
  EXPECT_GE(row(report, "train_actor", 0).peak_allocated, row(report, "generate", 0).peak_allocated);
  EXPECT_GT(row(report, "train_actor", 0).n_allocs, row(report, "train_actor", 1).n_allocs / 2);
}

}  // namespace
}  // namespace headroom

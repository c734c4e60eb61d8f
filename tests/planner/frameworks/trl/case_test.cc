#include "planner/frameworks/trl/case.h"

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

const Names kNone, kUpdate = {"optimizer_step"}, kScored = {"generate", "reward", "rollout"},
                   kOwn = {"generate", "old_logprob", "reward", "rollout"};

/// A training step's rows: what its rollout has, then its micro-batch, then its update.
Names grpo_rows(const Names& rollout, const Names& update) {
  Names out = rollout;
  for (const char* name : {"forward_logps", "loss_forward", "backward", "train_step"}) out.emplace_back(name);
  out.insert(out.end(), update.begin(), update.end());
  out.emplace_back("train_actor");
  return out;
}

TEST(Trl, AdaptersNeedTargets) {
  for (const char* targets : {"[]", "[lm_head]", "[nothing]", "q_proj"}) {
    const Result<ReadJob> read = test::read_case(kCase, {"lora=4", std::string("lora_targets=") + targets});
    ASSERT_FALSE(read) << targets;
    EXPECT_EQ(read.error().key, "lora_targets");
  }
  EXPECT_TRUE(test::read_case(kCase, {"lora=4", "lora_targets=[q_proj]"}));
}

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
                               {"temperature=0", "temperature"},
                               {"loss_type=cispo", "loss_type"},
                               {"optim=adafactor", "optim"}});
}

TEST(Trl, KeysThatAreNotReadAreNoted) {
  const Result<ReadJob> read = test::read_case(kCase, {"lora_targets=q_proj", "epochs=2"});
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(read->warnings.size(), 2u);
  EXPECT_EQ(read->warnings[0].key, "epochs");
  EXPECT_EQ(read->warnings[1].key, "lora_targets");
}

TEST(Trl, WeightsMayBeHalves) {
  // As large as bf16's, but autocast copies them for every product.
  const Report half = simulated({"dtype=float16"}), brain = simulated({"dtype=bfloat16"});
  EXPECT_EQ(row(half, "init", -1).allocated_end, row(brain, "init", -1).allocated_end);
  EXPECT_GT(row(half, "generate", 0).n_allocs, row(brain, "generate", 0).n_allocs);
  EXPECT_EQ(test::read_case(kCase, {"dtype=float16"})->job.roles[0].precision.weights, DType::fp16);
}

TEST(Trl, CompletionsAreMadeForAWholeAccumulation) {
  const Report report = simulated({"accum=2", "num_iterations=2", "steps=4"});
  for (int step = 0; step < 8; ++step)
    EXPECT_EQ(rows(report, step), grpo_rows(step % 4 == 0 ? kOwn : kNone, step % 2 == 1 ? kUpdate : kNone))
        << "step " << step;
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
  for (int step = 0; step < 4; ++step)
    EXPECT_EQ(rows(report, step), grpo_rows(step % 2 == 0 ? kOwn : kNone, kUpdate)) << "step " << step;
}

TEST(Trl, SettingsHaveTheirEffects) {
  const auto peak = [](std::vector<std::string> changes) {
    return row(simulated(std::move(changes)), "train_actor", 1).peak_allocated;
  };
  // The foreach optimizer copies all parameters for a moment, the fused one keeps its counters on the device.
  EXPECT_NE(peak({"optim=adamw_torch"}), peak({}));
  EXPECT_LT(peak({"lora=4", "lora_targets=[q_proj]"}), peak({"lora=4"}));
  EXPECT_NE(peak({"bf16=false"}), peak({}));
}

TEST(Trl, ATemperatureCopiesTheScoresOfEachToken) {
  const Report cold = simulated({"temperature=0.7"}), plain = simulated({});
  EXPECT_EQ(row(cold, "generate", 0).n_allocs, row(plain, "generate", 0).n_allocs + 8);
}

TEST(Trl, GenerationKeepsTheDropoutOfTheFamily) {
  // Train mode: two layers with an embedding's and two residual dropouts, each a mask and a result a forward.
  const std::vector<std::string> gpt2 = {"model.model_type=gpt2", "model.n_embd=64", "model.n_layer=2",
                                         "model.n_head=2", "model.n_positions=64"};
  std::vector<std::string> without = gpt2;
  for (const char* key : {"model.resid_pdrop=0", "model.embd_pdrop=0", "model.attn_pdrop=0"})
    without.push_back(key);
  EXPECT_EQ(row(simulated(gpt2), "generate", 0).n_allocs,
            row(simulated(without), "generate", 0).n_allocs + 8 * 2 * 5);
}

TEST(Trl, AReferenceHasItsRow) {
  EXPECT_EQ(rows(simulated({"beta=0.04"}), 0),
            grpo_rows({"generate", "ref_logprob", "reward", "rollout"}, kUpdate));
  // With adapters the policy's own log-probs are formed by the same model: calls of one name.
  EXPECT_EQ(rows(simulated({"beta=0.04", "lora=4", "num_iterations=2"}), 0),
            grpo_rows({"generate", "ref_logprob", "reward", "rollout"}, kUpdate));
  // Adapters off: no second model.
  EXPECT_LT(row(simulated({"beta=0.04", "lora=4"}), "init", -1).allocated_end,
            row(simulated({"beta=0.04"}), "init", -1).allocated_end * 3 / 4);
}

/// Calls within calls: an outer one begins and ends with its own code, and covers what the inner ones took.
TEST(Trl, RowsNest) {
  const Report report = simulated({"beta=0.04"});
  for (const PhaseReport& phase : report.devices[0].phases) {
    if (phase.within.empty()) continue;
    const ProcessPhase &inner = phase.processes[0], &outer = row(report, phase.within, phase.step);
    EXPECT_LE(inner.peak_allocated, outer.peak_allocated) << phase.phase;
    EXPECT_LE(inner.peak_reserved, outer.peak_reserved) << phase.phase;
    EXPECT_LE(inner.n_allocs, outer.n_allocs) << phase.phase;
  }
  const ProcessPhase &step = row(report, "train_step", 1), &rollout = row(report, "rollout", 1),
                     &loss = row(report, "loss_forward", 1), &backward = row(report, "backward", 1);
  EXPECT_EQ(step.allocated_start, rollout.allocated_start);
  EXPECT_EQ(loss.allocated_end, backward.allocated_start);
  // Ids and masks of a joined micro-batch, 768 bytes each: what the forward finds and the loss does not.
  EXPECT_EQ(row(report, "forward_logps", 1).allocated_start, loss.allocated_start + 2 * 1024);
  // Six tensors are put in another order, each by an index.
  EXPECT_EQ(step.n_allocs, rollout.n_allocs + loss.n_allocs + backward.n_allocs + 2 * 6);
  EXPECT_EQ(row(report, "rollout", 0).n_allocs, row(report, "generate", 0).n_allocs +
                                                    row(report, "ref_logprob", 0).n_allocs +
                                                    row(report, "reward", 0).n_allocs + 7 + 133);
}

TEST(Trl, ATrainingStepCoversItsRollout) {
  const Report report = simulated({});
  EXPECT_GE(row(report, "train_actor", 0).peak_allocated, row(report, "generate", 0).peak_allocated);
  EXPECT_GT(row(report, "train_actor", 0).n_allocs, row(report, "train_actor", 1).n_allocs / 2);
}

// --- PPO

std::vector<std::string> ppo(std::vector<std::string> more = {}) {
  more.push_back("trainer=ppo");
  return more;
}

TEST(TrlPpo, RowsAreTheTrainersCalls) {
  const Names calls = {"generate", "ref_logprob",    "critic_values", "reward", "forward_policy_value",
                       "backward", "optimizer_step", "train_actor"};
  const Report report = simulated(ppo({"accum=2", "epochs=2", "rollout_batch=3"}));
  for (int step : {0, 1}) EXPECT_EQ(rows(report, step), calls);
  // Three chunks of eight sequences.
  const Report whole = simulated(ppo({"accum=2", "epochs=2", "rollout_batch=8"}));
  EXPECT_EQ(row(report, "reward", 0).n_allocs, 3 * row(whole, "reward", 0).n_allocs);
}

TEST(TrlPpo, EveryKeyOfTheLoopIsReadByBothTrainers) {
  const std::vector<std::string> all = {
      "accum=2", "epochs=1",          "rollout_batch=8",  "dtype=bfloat16", "lora=0",
      "beta=0",  "num_generations=4", "num_iterations=1", "grad_ckpt=true", "temperature=1"};
  for (const char* trainer : {"trainer=grpo", "trainer=ppo"}) {
    std::vector<std::string> keys = all;
    keys.push_back(trainer);
    const Result<ReadJob> read = test::read_case(kCase, keys);
    ASSERT_TRUE(read) << trainer << ": " << read.error().text();
    EXPECT_FALSE(read->warnings.empty());
    EXPECT_TRUE(simulate(read->job, {}));
  }
}

TEST(TrlPpo, ReadsTheNamesOfPpoConfigToo) {
  const Job own = test::read_case(kCase, ppo({"response=12", "epochs=3", "rollout_batch=2", "steps=5"}))->job;
  const Job config = test::read_case(kCase, ppo({"response_length=12", "num_ppo_epochs=3",
                                                 "local_rollout_forward_batch_size=2", "steps=5"}))
                         ->job;
  EXPECT_EQ(own.batch, config.batch);
  EXPECT_EQ(own.roles[0].forward, config.roles[0].forward);
  EXPECT_EQ(own.roles[0].epochs, config.roles[0].epochs);
  EXPECT_EQ(own.step, config.step);
}

TEST(TrlPpo, ErrorsNameTheKey) {
  const std::pair<const char*, const char*> wrong[] = {
      {"num_mini_batches=3", "num_mini_batches"},
      {"num_sample_generations=10", "num_sample_generations"},
      {"whiten_rewards=true", "whiten_rewards"},
      {"epochs=0", "epochs"},
      {"rollout_batch=0", "rollout_batch"}};
  for (const auto& [change, key] : wrong) {
    const Result<ReadJob> read = test::read_case(kCase, ppo({change}));
    ASSERT_FALSE(read) << change;
    EXPECT_EQ(read.error().key, key) << read.error().text();
  }
}

TEST(TrlPpo, ScoresOutliveTheirUpdate) {
  const Report report = simulated(ppo({"response=16", "steps=3"}));
  const Bytes scores = Bytes{4} * 16 * 512 * 4;
  const ProcessPhase& second = row(report, "generate", 1);
  // The old table is still there when two new ones are made: beside each other, and in place for all chunks.
  EXPECT_GE(second.peak_allocated, second.allocated_start + 2 * scores);
  EXPECT_EQ(second.allocated_start, row(report, "generate", 2).allocated_start);
}

TEST(TrlPpo, AMicroBatchOutlivesTheNextOnesForward) {
  const auto forward_peak = [](std::vector<std::string> more) {
    const Report report = simulated(ppo(std::move(more)));
    return row(report, "forward_policy_value", 1).peak_allocated;
  };
  // Logits of whole sequences, and the distribution over the responses.
  const Bytes kept = Bytes{4} * (24 + 8) * 512 * 4;
  EXPECT_GE(forward_peak({"batch=4", "accum=2"}), forward_peak({"batch=4", "accum=1"}) + kept);
}

TEST(TrlPpo, TheDatasetsEndEndsAnAccumulation) {
  // Gradients are gone before the second micro-batch: no sum of two.
  const Report ends = simulated(ppo({"accum=2", "dataset=16", "steps=2"}));
  const Report goes_on = simulated(ppo({"accum=2", "dataset=64", "steps=2"}));
  EXPECT_EQ(row(ends, "backward", 0).peak_allocated, row(goes_on, "backward", 0).peak_allocated);
  EXPECT_LT(row(ends, "backward", 1).peak_allocated, row(goes_on, "backward", 1).peak_allocated);
}

TEST(TrlPpo, StatesComeWithTheFirstStepOfBothModels) {
  const Report report = simulated(ppo());
  const Bytes before = row(report, "backward", 0).allocated_end;
  const Bytes weights = row(report, "init", -1).allocated_end;  // of four models, two of them trained
  EXPECT_NEAR(static_cast<double>(row(report, "optimizer_step", 0).allocated_end - before),
              static_cast<double>(weights), 0.05 * static_cast<double>(weights));
  EXPECT_EQ(row(report, "optimizer_step", 1).allocated_end, row(report, "backward", 1).allocated_end);
}

TEST(TrlPpo, ModulesLoseTheirDropoutAndFunctionsKeepIt) {
  const auto allocations = [](const std::string& phase, std::vector<std::string> more) {
    more.insert(more.end(), {"model.model_type=opt", "model.ffn_dim=128", "model.max_position_embeddings=64",
                             "model.word_embed_proj_dim=64"});
    return row(simulated(ppo(std::move(more))), phase, 0).n_allocs;
  };
  // Two layers with two dropouts of a mask and a result; only what is trained is in train mode.
  EXPECT_EQ(allocations("critic_values", {}), allocations("critic_values", {"model.dropout=0"}) + 2 * 2 * 2);
  EXPECT_EQ(allocations("reward", {}), allocations("reward", {"model.dropout=0"}));
}

}  // namespace
}  // namespace headroom

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/planner/frameworks/case_reading.h"

namespace headroom {
namespace {

Job job_of(int stage, const std::string& dtype) {
  const Result<ReadJob> read = test::read_case(
      R"({"actor": {"model_type": "opt", "vocab_size": 512, "hidden_size": 64, "ffn_dim": 128,
          "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 128,
          "word_embed_proj_dim": 64}, "batch": 2, "prompt": 16, "response": 8, "zero_stage": 2, "name": "small"})",
      {"zero_stage=" + std::to_string(stage), "dtype=" + dtype});
  EXPECT_TRUE(read) << read.error().text();
  return read->job;
}

bool does(const PhaseSpec& phase, Verb verb) {
  return std::any_of(phase.actions.begin(), phase.actions.end(),
                     [verb](const Action& action) { return action.verb == verb; });
}

/// The recorded ZeRO-3 run reserves at its first generation all that it reserved when the reward's engine was
/// made: nothing empties the cache in between.
TEST(DeepSpeedChatJob, EmptiesTheCacheBeforeEachEngineButTheFirstAndNotAfterTheLast) {
  const Job job = job_of(3, "fp16");
  std::vector<bool> emptied;
  for (const PhaseSpec& phase : job.start) emptied.push_back(does(phase, Verb::empty_cache));
  EXPECT_EQ(emptied, (std::vector<bool>{false, true, false, true, false, true, false}));
}

/// Who reports memory when its engine is made, which resets the peak counters: stages 1 to 3, evaluating
/// engines of stage 3, and the bf16 optimizer of stage 0.
TEST(DeepSpeedChatJob, EnginesThatReportMemoryResetPeaks) {
  const auto resets = [](const Job& job) {
    std::string roles;
    for (const PhaseSpec& phase : job.start)
      if (does(phase, Verb::reset_peaks)) roles += phase.name + ' ';
    return roles;
  };
  EXPECT_EQ(resets(job_of(0, "fp16")), "");
  EXPECT_EQ(resets(job_of(0, "bf16")), "init_actor init_critic ");
  EXPECT_EQ(resets(job_of(1, "fp16")), "init_actor init_critic ");
  EXPECT_EQ(resets(job_of(2, "bf16")), "init_actor init_critic ");
  EXPECT_EQ(resets(job_of(3, "bf16")), "init_actor init_ref init_critic init_reward ");
}

/// Recorded: 486 MiB outside the allocator more at stage 3, a communicator of an H200's.
TEST(DeepSpeedChatJob, StageThreeWorksInTwoGroups) {
  EXPECT_EQ(job_of(2, "fp16").processes.front().communicators, 1);
  EXPECT_EQ(job_of(3, "fp16").processes.front().communicators, 2);
}

/// Peaks without the optimizer's states must not pass for the run's.
TEST(DeepSpeedChatJob, AVerdictOverSkippedStepsAloneIsOpen) {
  const auto with = [](const std::vector<std::string>& changes) {
    return test::read_case(
               R"({"actor": {"model_type": "gpt2", "vocab_size": 512, "n_embd": 64, "n_layer": 2, "n_head": 2},
                   "batch": 2, "prompt": 16, "response": 8, "zero_stage": 1})",
               changes)
        ->job;
  };
  const Job usual = with({}), few = with({"steps=9"}), enough = with({"steps=10"}),
            safe = with({"steps=1", "fp16_extra.initial_scale_power=4"}),
            bf16 = with({"steps=1", "dtype=bf16"});
  EXPECT_GT(usual.steps, 9);
  EXPECT_TRUE(usual.not_modelled.empty());
  ASSERT_EQ(few.not_modelled.size(), 1u);
  EXPECT_NE(few.not_modelled.front().find("--steps 10"), std::string::npos);
  EXPECT_TRUE(enough.not_modelled.empty());
  EXPECT_TRUE(safe.not_modelled.empty());
  EXPECT_TRUE(bf16.not_modelled.empty());
}

}  // namespace
}  // namespace headroom

#include "planner/cli/drawn_steps.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"

namespace headroom::cli {
namespace {

constexpr int kSteps = 5;

Job run_of(bool packed, int budget = 4096) {
  const std::string actor = "actor_rollout_ref.actor.", rollout = "actor_rollout_ref.rollout.";
  const std::string text = fmt::format(
      "headroom.versions.verl=0.5.0\nalgorithm.adv_estimator=grpo\nactor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct\n"
      "data.train_batch_size=64\ndata.max_prompt_length=512\ndata.max_response_length=2048\n{0}ppo_mini_batch_size=32\n"
      "{0}use_dynamic_bsz={2}\n{0}ppo_max_token_len_per_gpu={3}\n{0}ppo_micro_batch_size_per_gpu=4\n"
      "{1}log_prob_micro_batch_size_per_gpu=4\n{1}n=4\n{1}tensor_model_parallel_size=1\n{1}gpu_memory_utilization=0.3\n"
      "{1}name=vllm\nactor_rollout_ref.model.use_remove_padding={2}\ntrainer.n_gpus_per_node=2\ntrainer.nnodes=1\n",
      actor, rollout, packed, budget);
  const Result<ReadJob> read = read_job_text(text, "run.args", {});
  EXPECT_TRUE(read) << read.error().text();
  return read->job;
}

Lengths usual(double response, double spread) {
  Lengths out;
  out.mean_prompt = 100;
  out.mean_response = response;
  out.spread = spread;
  out.source = "a test";
  return out;
}

DrawnSteps drawn(const Job& job, const Lengths& lengths, Bytes room) {
  const auto out = draw_steps(job, lengths, load_hardware("h100").value(), room, kSteps);
  EXPECT_TRUE(out) << out.error().text();
  EXPECT_TRUE(*out);
  return out && *out ? **out : DrawnSteps{};
}

TEST(DrawnSteps, RunOutWhereMemoryIsShort) {
  const Job job = run_of(true);
  const DrawnSteps wide = drawn(job, usual(400, 300), 70 * kGiB);
  EXPECT_EQ(wide.steps, kSteps);
  EXPECT_EQ(wide.ran_out, 0);
  EXPECT_EQ(wide.retries, 0);
  // Somewhere below, every step runs out.
  int most = 0;
  for (Bytes room = 28 * kGiB; room > 2 * kGiB && most == 0; room -= 3 * kGiB) {
    const auto some = draw_steps(job, usual(400, 300), load_hardware("h100").value(), room, kSteps);
    ASSERT_TRUE(some) << some.error().text();
    if (!*some) break;  // not even the start fits
    EXPECT_GE((*some)->ran_out, most);
    most = (*some)->ran_out;
    int where = 0;
    for (const auto& [phase, count] : (*some)->phases) where += count;
    EXPECT_EQ(where, (*some)->ran_out);
  }
  EXPECT_GT(most, 0);
}

TEST(DrawnSteps, AreTheSameEveryTime) {
  const Job job = run_of(true);
  EXPECT_EQ(text(drawn(job, usual(400, 0), 70 * kGiB)), text(drawn(job, usual(400, 0), 70 * kGiB)));
}

TEST(DrawnSteps, DecideNothingWhereLengthsDoNot) {
  const Hardware h100 = load_hardware("h100").value();
  EXPECT_FALSE(*draw_steps(run_of(false), usual(400, 300), h100, 70 * kGiB, kSteps)) << "padded to the cap";
  EXPECT_FALSE(*draw_steps(run_of(true), usual(2048, 0), h100, 70 * kGiB, kSteps)) << "all at the cap";
}

TEST(DrawnSteps, SayWhatBecameOfThem) {
  EXPECT_EQ(text({.steps = 100, .ran_out = 0, .phases = {}, .gave_back = 0, .retries = 0}),
            "0 of 100 steps with drawn lengths run out of memory");
  EXPECT_EQ(text({.steps = 100, .ran_out = 3, .phases = {{"train_actor", 3}}, .gave_back = 12, .retries = 40}),
            "3 of 100 steps with drawn lengths run out of memory (train_actor 3), 12 more give cached memory back (40 times)");
}

}  // namespace
}  // namespace headroom::cli

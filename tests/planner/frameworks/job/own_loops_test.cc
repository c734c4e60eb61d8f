#include <fmt/format.h>
#include <gmock/gmock.h>

#include "simulator/closed_form/folded_trainer.h"
#include "simulator/hardware/library.h"
#include "simulator/job/actions.h"
#include "simulator/job/names.h"
#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/case_reading.h"

/// A trainer's own loop runs on every store, and steps that don't make its calls are refused.

namespace headroom {
namespace {

using testing::HasSubstr;

constexpr const char* kModel =
    "{model_type: llama, vocab_size: 1024, hidden_size: 256, intermediate_size: 512, num_hidden_layers: 3, "
    "num_attention_heads: 4, num_key_value_heads: 2}";

std::string case_of(const std::string& loop) {
  const std::string sizes = "batch: 4\nprompt: 16\nresponse: 8\nsteps: 2\n";
  if (loop == "deepspeed_chat") return sizes + "zero_stage: 2\nactor: " + kModel + "\n";
  if (loop == "trl_ppo") return sizes + "trainer: ppo\nmodel: " + kModel + "\n";
  return sizes + "trainer: grpo\nnum_generations: 4\nbeta: 0.1\nmodel: " + kModel +
         (loop == "trl_grpo_lora" ? "\nlora: 8\n" : "\n");
}

/// The case's job on two GPUs under `kind`.
Job job_on(const std::string& loop, ShardingKind kind) {
  const Result<ReadJob> read = test::read_case(case_of(loop));
  EXPECT_TRUE(read) << read.error().text();
  if (!read) return {};
  Job job = read->job;
  for (Pool& pool : job.pools) pool.gpus_per_node = 2;
  job.batch.prompts *= job.batch.sequences() < 8 ? 2 : 1;
  PhaseSpec optimizers = between_phases();
  for (Role& role : job.roles) {
    role.sharding.kind = kind;
    if (role.trained) optimizers.actions.push_back(role_action(Verb::build_optimizer, role.name));
  }
  job.start.push_back(optimizers);
  return job;
}

Bytes peak(const Report& report, const std::string& phase) {
  Bytes out = 0;
  for (const PhaseReport& row : report.devices.front().phases)
    if (row.phase == phase) out = std::max(out, row.processes.front().peak_allocated);
  return out;
}

class OwnLoops : public testing::TestWithParam<std::tuple<const char*, ShardingKind>> {};

TEST_P(OwnLoops, RunOnEveryStore) {
  const auto [loop, kind] = GetParam();
  const Hardware hardware = *load_hardware("h100");
  const Job job = job_on(loop, kind);
  const Result<Report> whole = simulate(job, hardware), folded = closed_form::estimate(job, hardware);
  ASSERT_TRUE(whole) << whole.error().text();
  ASSERT_TRUE(folded) << folded.error().text();
  EXPECT_NEAR(static_cast<double>(peak(*folded, "train_actor")),
              static_cast<double>(peak(*whole, "train_actor")),
              0.02 * static_cast<double>(peak(*whole, "train_actor")));
  if (kind == ShardingKind::none) return;
  // Spread over two ranks, or with flat buffers of its own: no store is another one in disguise.
  EXPECT_NE(peak(*whole, "train_actor"),
            peak(*simulate(job_on(loop, ShardingKind::none), hardware), "train_actor"));
}

INSTANTIATE_TEST_SUITE_P(
    All, OwnLoops,
    testing::Combine(testing::Values("trl_grpo", "trl_grpo_lora", "trl_ppo", "deepspeed_chat"),
                     testing::Values(ShardingKind::none, ShardingKind::fsdp1, ShardingKind::fsdp2,
                                     ShardingKind::zero0, ShardingKind::zero1, ShardingKind::zero2,
                                     ShardingKind::zero3, ShardingKind::data_parallel,
                                     ShardingKind::low_level_zero1, ShardingKind::low_level_zero2,
                                     ShardingKind::gemini)),
    [](const auto& at) {
      return fmt::format("{}_{}", std::get<0>(at.param), enum_name(std::get<1>(at.param)));
    });

/// The step without the actions whose call is `name`.
Job without(const std::string& loop, const std::string& name) {
  Job job = job_on(loop, ShardingKind::none);
  for (PhaseSpec& phase : job.step)
    std::erase_if(phase.actions, [&](const Action& action) {
      return action.call == name || enum_name(action.verb) == name;
    });
  return job;
}

TEST(OwnLoops, EveryCallThatOthersNeedIsMissed) {
  for (const char* loop : {"trl_grpo", "trl_ppo", "deepspeed_chat"}) {
    const LoopKind& kind = *job_on(loop, ShardingKind::none).roles.front().loop;
    for (const LoopCall& call : kind.calls)
      for (const std::string_view before : call.after) {
        if (before.empty() || before == "build_optimizer") continue;
        const Status valid = validate_job(without(loop, std::string(before)));
        ASSERT_FALSE(valid) << loop << " without " << before;
        EXPECT_THAT(valid.error().message, HasSubstr(fmt::format("expected {} before", before)));
        EXPECT_EQ(valid.error().key.rfind("roles.", 0), 0u) << valid.error().key;
      }
  }
}

TEST(OwnLoops, CallsAreTheirTrainersAlone) {
  Job job = job_on("trl_grpo", ShardingKind::none);
  job.step.front().actions.front().call = "shufle";
  EXPECT_THAT(validate_job(job).error().message, HasSubstr("found shufle"));
  job = job_on("trl_grpo", ShardingKind::none);
  for (Role& role : job.roles) role.loop = nullptr;
  EXPECT_THAT(validate_job(job).error().message, HasSubstr("no calls of its own"));
}

}  // namespace
}  // namespace headroom

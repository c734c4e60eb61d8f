#include "planner/cli/cached_memory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/cli/prediction.h"
#include "planner/frameworks/registry.h"
#include "planner/writers/table.h"
#include "simulator/device/verdict.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"

namespace headroom::cli {
namespace {

/// Qwen2-7B with all its weights trained on two H800, whose states alone pass the card with what is cached, and a
/// model that leaves the card to its sequences.
Report settled(const std::string& model, int prompt, int response, int micro) {
  const std::string actor = "actor_rollout_ref.actor.", rollout = "actor_rollout_ref.rollout.";
  const std::string text = fmt::format(
      "headroom.versions.verl=0.3.0\nheadroom.versions.vllm=0.8.2\nalgorithm.adv_estimator=grpo\n"
      "actor_rollout_ref.model.path={}\ndata.train_batch_size=256\ndata.max_prompt_length={}\n"
      "data.max_response_length={}\n{}ppo_mini_batch_size=256\n{}ppo_micro_batch_size_per_gpu={}\n"
      "{}log_prob_micro_batch_size_per_gpu=16\n{}n=5\n{}tensor_model_parallel_size=2\n"
      "{}gpu_memory_utilization=0.6\n{}name=vllm\n{}fsdp_config.param_offload=true\n"
      "{}fsdp_config.optimizer_offload=true\nactor_rollout_ref.model.use_remove_padding=true\n"
      "trainer.n_gpus_per_node=2\ntrainer.nnodes=1\n",
      model, prompt, response, actor, actor, micro, rollout, rollout, rollout, rollout, rollout, actor, actor);
  const Result<ReadJob> read = read_job_text(text, "run.args", {});
  EXPECT_TRUE(read) << read.error().text();
  const Hardware h800 = load_hardware("h800").value();
  const Limits limits = limits_of({}, h800);
  Result<Report> report = run_on_device(read->job, h800, Fidelity::every_allocation);
  EXPECT_TRUE(report) << report.error().text();
  judge(*report, limits);
  EXPECT_FALSE(report->fits);
  const Status status = settle_cached_memory(*report, read->job, h800, limits, simulating_executor());
  EXPECT_TRUE(status);
  return std::move(*report);
}

/// What states fill is decided, whatever the lengths; what sequences fill is not.
TEST(CachedMemory, StatesThatFillTheCardAreDecided) {
  for (const auto& [prompt, response] : {std::pair{8, 8}, std::pair{110, 310}}) {
    const Report states = settled("Qwen/Qwen2-7B-Instruct", prompt, response, 16);
    EXPECT_TRUE(states.fits) << response;
    EXPECT_TRUE(undetermined(states).empty());
    ASSERT_TRUE(gives_cache_back(states));
    EXPECT_THAT(states.warnings.back().message, testing::HasSubstr("whatever the lengths"));
    EXPECT_GE(spare(states), 0);
    // Nothing is to spare of the card; the verdict tells from what is in use.
    EXPECT_THAT(writers::verdict(states), testing::HasSubstr("fits, but only by giving cached memory back"));
    EXPECT_THAT(writers::verdict(states), testing::Not(testing::HasSubstr(" 0.00 GiB to spare")));
  }
  EXPECT_FALSE(settled("Qwen/Qwen2-7B-Instruct", 1024, 1024, 16).fits);
}

}  // namespace
}  // namespace headroom::cli

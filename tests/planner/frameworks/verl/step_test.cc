#include <gmock/gmock.h>

#include "simulator/job/names.h"
#include "tests/planner/frameworks/verl/run.h"

namespace headroom {
namespace {

using test::job_of;
using test::order;
using testing::HasSubstr;

/// `load actor weights, train actor, …`
std::string actions(const std::vector<PhaseSpec>& phases, PhaseKind kind) {
  std::string out;
  for (const PhaseSpec& phase : phases) {
    if (phase.kind != kind) continue;
    for (const Action& action : phase.actions) {
      out += (out.empty() ? "" : ", ") + std::string(enum_name(action.verb));
      if (!action.role.empty()) out += " " + action.role;
      if (!action.engine.empty()) out += " " + action.engine;
      if ((action.parts & kWeights) != 0) out += " W";
      if ((action.parts & kGradients) != 0) out += " G";
      if ((action.parts & kOptimizer) != 0) out += " A";
      if ((action.parts & kMasterWeights) != 0) out += " M";
    }
    break;
  }
  return out;
}

const std::vector<std::string> kOffloaded = {"actor_rollout_ref.actor.fsdp_config.param_offload=true",
                                             "actor_rollout_ref.actor.fsdp_config.optimizer_offload=true"};

TEST(VerlStep, FollowsTheReleasesOrder) {
  const std::vector<std::string> both = {"trainer.save_freq=10", "trainer.test_freq=5"};
  EXPECT_EQ(order(job_of("0.9.0", both).step),
            "generate sleep actor_logprob ref_logprob train_actor save_checkpoint weight_sync validate");
  EXPECT_EQ(order(job_of("0.8.0", both).step), order(job_of("0.7.1", both).step));
  EXPECT_EQ(order(job_of("0.7.0", both).step),
            "weight_sync generate sleep actor_logprob ref_logprob train_actor weight_sync validate sleep "
            "save_checkpoint");
  EXPECT_EQ(order(job_of("0.5.0").step), "weight_sync generate sleep actor_logprob ref_logprob train_actor");
}

TEST(VerlStep, StartsEnginesBeforeAdamExists) {
  EXPECT_EQ(order(job_of("0.9.0").start), "init engine_init weight_sync validate");
  EXPECT_EQ(
      order(job_of("0.9.0", {"trainer.val_before_train=false", "trainer.resume_mode=resume_path"}).start),
      "init engine_init load weight_sync");
  EXPECT_EQ(order(job_of("0.6.0", {"trainer.val_before_train=false"}).start), "init engine_init");
}

TEST(VerlStep, MovesWhatIsOffloaded) {
  const Job job = job_of("0.9.0", kOffloaded);
  EXPECT_EQ(actions(job.step, PhaseKind::actor_logprob),
            "load actor W, forward actor, offload actor W, empty_cache actor");
  EXPECT_EQ(actions(job.step, PhaseKind::train_actor),
            "load actor W, load actor A, train actor, release actor G, offload actor W, empty_cache actor, "
            "offload actor A");
  EXPECT_EQ(actions(job.step, PhaseKind::ref_logprob),
            "forward ref");  // streamed from the host by its sharding
  EXPECT_EQ(actions(job_of("0.9.0").step, PhaseKind::train_actor), "train actor, release actor G");
  EXPECT_EQ(actions(job.start, PhaseKind::init),
            "build ref, build actor, build_optimizer actor, offload actor W, empty_cache actor, offload "
            "actor A, empty_cache actor");
}

TEST(VerlStep, SyncsAsTheReleaseDoes) {
  EXPECT_EQ(
      actions(job_of("0.9.0", kOffloaded).step, PhaseKind::weight_sync),
      "expandable_off actor, empty_cache actor, wake_weights rollout, load actor W, export_weights actor, "
      "offload actor W, empty_cache actor, sync_weights actor rollout, empty_cache actor, wake_kv rollout, expandable_on actor");
  std::vector<std::string> fsdp2 = kOffloaded;
  fsdp2.push_back("actor_rollout_ref.actor.strategy=fsdp2");
  EXPECT_EQ(actions(job_of("0.9.0", fsdp2).step, PhaseKind::weight_sync),
            "expandable_off actor, empty_cache actor, wake_weights rollout, sync_weights actor rollout, "
            "empty_cache actor, wake_kv rollout, expandable_on actor");
  EXPECT_THAT(actions(job_of("0.8.0", fsdp2).step, PhaseKind::weight_sync),
              HasSubstr("load actor W, sync_weights"));
  EXPECT_THAT(
      actions(job_of("0.6.0", kOffloaded).step, PhaseKind::weight_sync),
      HasSubstr(
          "load actor W, export_weights actor, offload actor W, empty_cache actor, wake_weights rollout"));
}

/// free_cache_engine counts from 0.5 on; before, engines always sleep.
TEST(VerlStep, OldEnginesSleepWhateverIsAsked) {
  const std::vector<std::string> kept = {"actor_rollout_ref.rollout.free_cache_engine=false"};
  EXPECT_THAT(order(job_of("0.4.1", kept).step), HasSubstr("generate sleep"));
  EXPECT_THAT(order(job_of("0.5.0", kept).step), testing::Not(HasSubstr("sleep")));
}

TEST(VerlStep, OldReleasesKeepTheCacheOfInit) {
  EXPECT_THAT(actions(job_of("0.7.1").start, PhaseKind::init), HasSubstr("empty_cache actor"));
  EXPECT_THAT(actions(job_of("0.7.0").start, PhaseKind::init), testing::Not(HasSubstr("empty_cache")));
}

TEST(VerlStep, PpoHasACriticAndWarmsItUp) {
  const Job job = job_of("0.8.0", {"algorithm.adv_estimator=gae", "critic.ppo_micro_batch_size_per_gpu=4",
                                   "trainer.critic_warmup=3", "critic.fsdp.optimizer_offload=true"});
  EXPECT_EQ(order(job.step),
            "generate sleep actor_logprob ref_logprob critic_values train_critic train_actor weight_sync");
  EXPECT_EQ(actions(job.step, PhaseKind::train_critic),
            "load critic A, train critic, release critic G, offload critic A");
  for (const PhaseSpec& phase : job.step)
    EXPECT_EQ(phase.when.from, phase.kind == PhaseKind::train_actor ? 2 : 0);
}

TEST(VerlStep, LeavesOutWhatIsNotThere) {
  EXPECT_EQ(order(job_of("0.9.0", {"actor_rollout_ref.actor.use_kl_loss=false"}).step),
            "generate sleep actor_logprob train_actor weight_sync");
  EXPECT_EQ(order(job_of("0.9.0", {"algorithm.rollout_correction.bypass_mode=true"}).step),
            "generate sleep ref_logprob train_actor weight_sync");
  EXPECT_EQ(order(job_of("0.9.0", {"actor_rollout_ref.rollout.free_cache_engine=false"}).step),
            "generate actor_logprob ref_logprob train_actor weight_sync");
}

TEST(VerlStep, AColocatedRewardEngineTakesTurns) {
  const std::vector<std::string> reward = {"reward.reward_model.enable=true",
                                           "reward.reward_model.model_path=Qwen/Qwen2.5-1.5B",
                                           "trainer.test_freq=1"};
  const Job job = job_of("0.9.0", reward);
  EXPECT_EQ(order(job.start), "init engine_init engine_init weight_sync validate weight_sync");
  EXPECT_EQ(actions(job.step, PhaseKind::reward), "score reward");
  EXPECT_EQ(actions(job.step, PhaseKind::validate), "generate rollout, sleep rollout, score reward");
  EXPECT_EQ(job.engine("reward")->sleep_level, 1);
  EXPECT_EQ(job.processes.back().name, "reward_engine");
  // verl still takes the keys' old place.
  const Job old = job_of("0.9.0", {"reward_model.enable=true", "reward_model.model.path=Qwen/Qwen2.5-1.5B",
                                   "trainer.test_freq=1"});
  EXPECT_EQ(old.step, job.step);
  ASSERT_NE(old.engine("reward"), nullptr);
  EXPECT_EQ(old.engine("reward")->model->parameters(), job.engine("reward")->model->parameters());
}

TEST(VerlStep, LoraHasNoSecondModel) {
  std::vector<std::string> lora = kOffloaded;
  for (const char* text :
       {"actor_rollout_ref.model.lora_rank=32", "actor_rollout_ref.rollout.load_format=safetensors"})
    lora.push_back(text);
  const Job job = job_of("0.9.0", lora);
  EXPECT_EQ(actions(job.start, PhaseKind::init),
            "build actor, build_optimizer actor, offload actor W, empty_cache actor, offload actor A, "
            "empty_cache actor");
  EXPECT_EQ(actions(job.step, PhaseKind::ref_logprob),
            "load actor W, forward ref, offload actor W, empty_cache actor");
  EXPECT_EQ(job.role("ref")->shares_weights_of, "actor");
}

TEST(VerlStep, MegatronMovesGradientsAndMasterWeights) {
  const Job job =
      job_of("0.9.0", {"model_engine=megatron", "actor_rollout_ref.actor.megatron.param_offload=true",
                       "actor_rollout_ref.actor.megatron.optimizer_offload=true",
                       "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4"});
  EXPECT_EQ(actions(job.step, PhaseKind::train_actor),
            "load actor W G, load actor A M, empty_cache actor, train actor, offload actor W, release actor "
            "G, empty_cache actor, "
            "offload actor A M, empty_cache actor");
  EXPECT_EQ(actions(job.step, PhaseKind::ref_logprob),
            "load ref W, forward ref, offload ref W, empty_cache ref");
  EXPECT_EQ(job.role("actor")->sharding.kind, ShardingKind::megatron);
  EXPECT_EQ(job.role("ref")->parallel.tensor, 4);
  EXPECT_THAT(job.not_modelled, testing::IsEmpty());
}

}  // namespace
}  // namespace headroom

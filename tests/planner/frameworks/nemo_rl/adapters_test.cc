#include "planner/frameworks/nemo_rl/adapters.h"

#include <gmock/gmock.h>

#include "tests/planner/frameworks/nemo_rl/run.h"

namespace headroom::nemo_rl {
namespace {

using testing::ElementsAre;

std::vector<std::string> targets(Lora lora) {
  lora.all_linear = false;
  return adapter_targets(lora, *test::nemo_job("0.7.0").role("actor")->model);
}

TEST(AdapterTargets, AreThoseThatPatternsMatch) {
  EXPECT_THAT(targets({}), ElementsAre("down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"));
  EXPECT_THAT(targets({.targets = {"q_proj", "*.mlp.*"}}), ElementsAre("down_proj", "gate_proj", "q_proj", "up_proj"));
  EXPECT_THAT(targets({.targets = {"*.layers.0.*.q_proj"}}), ElementsAre("q_proj")) << "counts for all layers";
}

TEST(AdapterTargets, LeaveOutWhatIsExcluded) {
  EXPECT_THAT(targets({.excluded = {"*o_proj*", "gate_proj"}}),
              ElementsAre("down_proj", "k_proj", "q_proj", "up_proj", "v_proj"));
  EXPECT_EQ(targets({.excluded = {"*.layers.0.*"}}).size(), 7u) << "one that leaves some out counts for none";
}

TEST(AdapterTargets, ReachTheRole) {
  const Job job = test::nemo_job("0.7.0", {"policy.dtensor_cfg.lora_cfg.enabled=true",
                                           "policy.dtensor_cfg.lora_cfg.match_all_linear=false",
                                           "policy.dtensor_cfg.lora_cfg.exclude_modules=['*o_proj*']"});
  EXPECT_TRUE(job.not_modelled.empty());
  EXPECT_EQ(job.role("actor")->lora->targets.size(), 6u);
}

}  // namespace
}  // namespace headroom::nemo_rl

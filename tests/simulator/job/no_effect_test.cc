#include "simulator/job/no_effect.h"

#include <gmock/gmock.h>

#include "tests/simulator/job/small_job.h"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

template <typename Change>
std::vector<std::string> keys(Change change) {
  Job job = test::small_job();
  change(job.roles.front());
  std::vector<std::string> out;
  for (const NoEffect& found : no_effect(job)) out.push_back(found.key);
  return out;
}

TEST(NoEffect, NamesWhatIsSetInVain) {
  EXPECT_THAT(keys([](Role&) {}), IsEmpty());
  EXPECT_THAT(keys([](Role& role) { role.fused_kernels = true; }), ElementsAre("roles.actor.fused_kernels"));
  EXPECT_THAT(keys([](Role& role) {
                role.sharding.kind = ShardingKind::zero2;
                role.sharding.layers_wrapped = false;
              }),
              ElementsAre("roles.actor.sharding.layers_wrapped"));
}

TEST(NoEffect, AsksTheSettingsThatDecide) {
  EXPECT_THAT(keys([](Role& role) {
                role.sharding.kind = ShardingKind::fsdp1;
                role.sharding.layers_wrapped = false;
              }),
              IsEmpty());
  EXPECT_THAT(keys([](Role& role) {
                role.fused_kernels = true;
                role.shares_weights_of = "critic";
              }),
              IsEmpty());
}

}  // namespace
}  // namespace headroom

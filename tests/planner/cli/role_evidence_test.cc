#include "planner/cli/role_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/architecture/read.h"
#include "models/presets/presets.h"
#include "simulator/hardware/library.h"

namespace headroom::cli {
namespace {

using engines::Standing;
using testing::Contains;
using testing::Field;
using testing::IsEmpty;
using testing::Not;

Role megatron(const std::string& model) {
  Role role;
  role.trained = true;
  role.sharding.kind = ShardingKind::megatron;
  role.model = std::make_shared<Architecture>(make_architecture(find_preset(model).value(), model).value());
  return role;
}

Standing of(const std::vector<RoleEvidence>& rows, const std::string& component) {
  for (const RoleEvidence& row : rows)
    if (row.component == component) return row.standing;
  ADD_FAILURE() << "no row " << component;
  return Standing::inferred;
}

TEST(RoleEvidence, SaysOfEveryPartThatARoleUsesHowItIsKnown) {
  Role role = megatron("Qwen/Qwen3-30B-A3B");
  EXPECT_EQ(of(role_evidence(role), "TransformerEngine's layers"), Standing::read);
  EXPECT_EQ(of(role_evidence(role), "parameter and gradient buffers"), Standing::recorded);
  EXPECT_EQ(of(role_evidence(role), "experts, tokens by all-to-all"), Standing::recorded);
  role.megatron.dispatcher = MegatronDispatcher::flex;
  role.megatron.fp8 = true;
  role.parallel.context = 2;
  EXPECT_EQ(of(role_evidence(role), "experts, tokens by DeepEP or HybridEP"), Standing::read);
  EXPECT_EQ(of(role_evidence(role), "products in FP8"), Standing::read);
  role.megatron.fp8_parameters = true;
  role.megatron.mtp_layers = 1;
  EXPECT_EQ(of(role_evidence(role), "weights kept in FP8"), Standing::read);
  EXPECT_EQ(of(role_evidence(role), "multi-token prediction"), Standing::read);
  EXPECT_EQ(of(role_evidence(role), "ring between context ranks"), Standing::inferred);
  role.megatron.layers = MegatronLayers::local;
  EXPECT_EQ(of(role_evidence(role), "Megatron's own layers"), Standing::recorded);
  EXPECT_THAT(role_evidence(role), Not(Contains(Field(&RoleEvidence::component, "adapters"))));
}

TEST(RoleEvidence, OtherRuntimesAreRecordedLoopByLoop) {
  Role role = megatron("Qwen/Qwen2.5-7B");
  role.sharding.kind = ShardingKind::fsdp2;
  EXPECT_THAT(role_evidence(role), IsEmpty());
}

TEST(ProcessEvidence, TellsMeasuredCardsFromThoseThatFollowOthers) {
  EXPECT_EQ(of(process_evidence(find_hardware("h200").value()), "context and library handles"), Standing::recorded);
  EXPECT_EQ(of(process_evidence(find_hardware("b200").value()), "context and library handles"), Standing::inferred);
  EXPECT_EQ(of(process_evidence(find_hardware("b200").value()), "communicators"), Standing::inferred);
  // The H100's buffers, and sums of its own; or the H100's buffers alone.
  EXPECT_EQ(of(process_evidence(find_hardware("h200").value()), "communicators"), Standing::recorded);
  EXPECT_EQ(of(process_evidence(find_hardware("a100-80gb").value()), "communicators"), Standing::inferred);
}

}  // namespace
}  // namespace headroom::cli

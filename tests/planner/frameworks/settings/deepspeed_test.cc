#include "planner/frameworks/settings/deepspeed.h"

#include <gtest/gtest.h>

namespace headroom::settings {
namespace {

Sharding of(const std::string& version, bool scales = true) {
  Sharding out;
  set_deepspeed_release(version, scales, out);
  return out;
}

/// Each release has what came before it and nothing of what came after.
TEST(DeepspeedRelease, BringsOneThingAfterTheOther) {
  EXPECT_EQ(of("0.17.0"), Sharding{});
  EXPECT_TRUE(of("0.17.1").checks_bf16);
  EXPECT_FALSE(of("0.17.5").whole_bf16_states);
  EXPECT_TRUE(of("0.17.6").whole_bf16_states);
  EXPECT_FALSE(of("0.18.2").late_buckets);
  EXPECT_TRUE(of("0.18.3").late_buckets);
  EXPECT_TRUE(of("0.18.3").divides_output_gradients);
  EXPECT_FALSE(of("0.18.4").gathers_in_place);
  EXPECT_TRUE(of("0.18.5").gathers_in_place);
  EXPECT_FALSE(of("0.18.6").flattens_on_device);
  EXPECT_TRUE(of("0.18.7").flattens_on_device);
}

TEST(DeepspeedRelease, IsTheNewestWhereNoneIsStated) {
  EXPECT_EQ(of(""), of("0.19.5"));
}

/// Accelerate divides the loss itself.
TEST(DeepspeedRelease, DividesGradientsOnlyWhereTheTrainerLeavesItTo) {
  EXPECT_FALSE(of("0.19.5", false).divides_output_gradients);
}

}  // namespace
}  // namespace headroom::settings

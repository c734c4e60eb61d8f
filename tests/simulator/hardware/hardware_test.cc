#include "simulator/hardware/hardware.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(EfficiencyCurve, InterpolatesBetweenItsPointsAndStaysConstantOutside) {
  const EfficiencyCurve curve({{1e-5, 0.25}, {1e-3, 0.75}});
  EXPECT_DOUBLE_EQ(curve.seconds(1e-6), 4e-6);
  EXPECT_DOUBLE_EQ(curve.seconds(1e-5), 4e-5);
  EXPECT_DOUBLE_EQ(curve.seconds(1e-4), 2e-4);  // halfway in log(seconds): 0.5
  EXPECT_DOUBLE_EQ(curve.seconds(1e-2), 1e-2 / 0.75);
  EXPECT_EQ(curve.seconds(0), 0);
}

TEST(EfficiencyCurve, WithoutPointsReachesThePeak) {
  EXPECT_EQ(EfficiencyCurve().seconds(0.5), 0.5);
}

TEST(MatrixRates, FallBackToWhatTheCardHas) {
  MatrixRates volta{.fp16 = 125, .fp32 = 15.7};
  EXPECT_EQ(volta.of(DType::bf16), 15.7);
  EXPECT_EQ(volta.of(DType::nf4), 125);
  EXPECT_EQ(volta.of(DType::fp32), 15.7);
  MatrixRates hopper{.bf16 = 989, .fp16 = 989, .tf32 = 494, .fp32 = 67, .fp8 = 1979};
  EXPECT_EQ(hopper.of(DType::fp8), 1979);
  EXPECT_EQ(hopper.of(DType::fp32), 67);
}

}  // namespace
}  // namespace headroom

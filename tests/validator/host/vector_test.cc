#include "validator/host/vector.h"

#include <bit>
#include <cmath>

#include "tests/validator/host/host_array.h"

namespace headroom::gpu {
namespace {

constexpr DType kFloats[] = {DType::fp32, DType::fp16, DType::bf16};
constexpr std::int64_t kLengths[] = {1, 1000, 300'001};

/// A few roundings.
double bound(DType dtype) {
  return dtype == DType::fp32 ? 1e-6 : dtype == DType::fp16 ? 1e-3 : 8e-3;
}

class VectorOnHost : public HostTest {};

TEST_F(VectorOnHost, NormsAreTakenInDoublePrecision) {
  for (const DType dtype : kFloats)
    for (const std::int64_t n : kLengths) {
      auto x = normal(n);
      HostArray array(dtype, x);
      double squares = 0;
      for (const double value : x) squares += value * value;
      EXPECT_NEAR(norm_on_host(array.data(), dtype, n) / std::sqrt(squares), 1, 1e-12);
    }
}

TEST_F(VectorOnHost, ScalesAndAdds) {
  for (const DType dtype : kFloats)
    for (const std::int64_t n : kLengths) {
      auto x = normal(n), y = normal(n);
      HostArray sum(dtype, x), other(dtype, y);
      scale_on_host(sum.data(), dtype, -0.75f, n);
      add_on_host(sum.data(), other.data(), dtype, n);
      // Both steps round; where the terms nearly cancel only a reference that does so is near.
      std::vector<double> expected;
      for (const double number : x) expected.push_back(-0.75 * number);
      HostArray(dtype, expected);
      for (std::size_t i = 0; i < x.size(); ++i) expected[i] += y[i];
      EXPECT_LT(relative_error(sum.read(), expected), bound(dtype));
      EXPECT_EQ(other.read(), y);
    }
}

TEST_F(VectorOnHost, CastsRoundToNearest) {
  for (const DType from : kFloats)
    for (const DType to : kFloats) {
      constexpr std::int64_t n = 70'001;
      auto x = normal(n);
      std::vector<double> rounded = x;
      HostArray in(from, x), out(to, rounded);
      std::vector<double> expected = x;
      const HostArray nearest(to, expected);
      scale_on_host(out.data(), to, 0.0f, n);
      cast_on_host(in.data(), from, out.data(), to, n);
      EXPECT_EQ(out.read(), expected) << name(from) << " to " << name(to);
    }
}

// Halfway between two bf16 numbers: to the even one. NaNs stay NaNs, infinities infinite.
TEST(HostBf16, RoundsToNearestEven) {
  const auto rounded = [](std::uint32_t bits) { return HostBf16(std::bit_cast<float>(bits)).bits; };
  EXPECT_EQ(rounded(0x3f808000u), 0x3f80);
  EXPECT_EQ(rounded(0x3f818000u), 0x3f82);
  EXPECT_EQ(rounded(0x3f808001u), 0x3f81);
  EXPECT_EQ(rounded(0x7f800000u), 0x7f80);
  EXPECT_TRUE(std::isnan(static_cast<float>(HostBf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace headroom::gpu

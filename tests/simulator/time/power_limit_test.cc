#include "simulator/time/power_limit.h"

#include <gtest/gtest.h>

#include <random>

namespace headroom {
namespace {

Seconds of(double matrix, double memory, double host) {
  Seconds out;
  out[Spent::matrix] = matrix;
  out[Spent::memory] = memory;
  out[Spent::host] = host;
  return out;
}

/// Share of their burst's rate that products keep.
double kept(double matrix, double memory, double host) {
  MatrixRates rates;
  rates.sustained = 0.84;
  const Seconds burst = of(matrix, memory, host);
  return matrix / at_power_limit(burst, burst, rates)[Spent::matrix];
}

// What was measured on an H200, for work of minutes.
TEST(PowerLimit, FollowsWhatLastingWorkReached) {
  EXPECT_NEAR(kept(100, 0, 0), 0.84, 0.005);
  EXPECT_NEAR(kept(92, 8, 0), 0.847, 0.01);
  EXPECT_NEAR(kept(80, 20, 0), 0.861, 0.01);
  EXPECT_NEAR(kept(57, 43, 0), 0.920, 0.01);
  EXPECT_NEAR(kept(81, 0, 19), 0.933, 0.016);
  EXPECT_NEAR(kept(58.5, 0, 41.5), 0.996, 0.005);
  EXPECT_DOUBLE_EQ(kept(32, 0, 68), 1);
}

// A search relies on it: whoever does more of anything is not sooner done.
TEST(PowerLimit, MoreOfAnythingTakesLonger) {
  MatrixRates rates;
  rates.sustained = 0.84;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> up_to(0, 3);
  for (int i = 0; i < 20'000; ++i) {
    const Seconds one = of(up_to(random), up_to(random), up_to(random));
    for (const Spent kind : {Spent::matrix, Spent::memory, Spent::host}) {
      Seconds more = one;
      more[kind] += 0.01;
      EXPECT_GE(at_power_limit(more, more, rates).total(), at_power_limit(one, one, rates).total() + 1e-6);
    }
  }
}

TEST(PowerLimit, LeavesBurstsAndOtherWorkAlone) {
  EXPECT_DOUBLE_EQ(kept(0.01, 0, 0), 1);
  MatrixRates rates;
  rates.sustained = 0.84;
  EXPECT_DOUBLE_EQ(at_power_limit(of(0, 10, 0), of(0, 10, 0), rates).total(), 10);
  // A card that is not known to give way.
  EXPECT_DOUBLE_EQ(at_power_limit(of(50, 50, 0), of(50, 50, 0), MatrixRates{}).total(), 100);
  const Seconds out = at_power_limit(of(90, 10, 0), of(90, 10, 0), rates);
  EXPECT_DOUBLE_EQ(out[Spent::memory], 10);
  EXPECT_GT(out[Spent::matrix], 90);
}

}  // namespace
}  // namespace headroom

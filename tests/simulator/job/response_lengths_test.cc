#include "simulator/job/response_lengths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace headroom {
namespace {

TEST(ResponseLengths, DeviateAsTheirQuantilesDo) {
  for (const double mean : {100.0, 300.0, 460.0}) {
    constexpr int kParts = 20000;
    const std::vector<double> all = response_quantiles(mean, 512, kParts);
    const double expected = std::accumulate(all.begin(), all.end(), 0.0) / kParts;
    double squares = 0;
    for (const double one : all) squares += (one - expected) * (one - expected);
    EXPECT_NEAR(expected, mean, 0.01 * mean);
    EXPECT_NEAR(response_deviation(mean, 512), std::sqrt(squares / kParts), 0.5);
  }
  EXPECT_EQ(response_deviation(512, 512), 0);
}

TEST(ResponseLengths, TheLargestOfMoreDrawsIsLarger) {
  EXPECT_NEAR(largest_of(1), 0, 1e-6);
  EXPECT_NEAR(largest_of(2), 0.59, 0.03);  // 1 / sqrt(pi) exactly
  EXPECT_NEAR(largest_of(8), 1.42, 0.02);
}

}  // namespace
}  // namespace headroom

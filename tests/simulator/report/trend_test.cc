#include "simulator/report/trend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace headroom {
namespace {

constexpr double kGib = 1 << 30;

/// A run of `steps`: the first is lower (no optimizer state yet), the rest `level` with scatter.
std::vector<double> steady(std::size_t steps, double level, double scatter, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, scatter);
  std::vector<double> out{0.6 * level};
  while (out.size() < steps) out.push_back(level + noise(random));
  return out;
}

TEST(TrendOf, AWarmUpAndScatterAreNoGrowth) {
  for (unsigned seed = 0; seed < 200; ++seed)
    EXPECT_FALSE(trend_of(steady(10 + seed % 40, 40 * kGib, 0.8 * kGib, seed)).grows) << "seed " << seed;
}

TEST(TrendOf, FindsALeakUnderScatter) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::vector<double> values = steady(60, 40 * kGib, 0.5 * kGib, seed);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += static_cast<double>(i) * 0.1 * kGib;
    const Trend trend = trend_of(values);
    EXPECT_TRUE(trend.grows) << "seed " << seed;
    EXPECT_NEAR(trend.slope, 0.1 * kGib, 0.03 * kGib);
  }
}

TEST(TrendOf, FindsALeakWithoutScatter) {
  std::vector<double> values;
  for (int i = 0; i < 12; ++i) values.push_back(10 * kGib + i * 64.0 * (1 << 20));
  const Trend trend = trend_of(values);
  EXPECT_TRUE(trend.grows);
  EXPECT_TRUE(std::isinf(trend.significance));
}

TEST(TrendOf, AJumpThatStaysIsNoGrowthUnlessItIsLarge) {
  std::vector<double> values(40, 40 * kGib);
  std::fill(values.begin() + 8, values.end(), 44 * kGib);
  EXPECT_FALSE(trend_of(values).grows);
  std::fill(values.begin() + 8, values.end(), 70 * kGib);
  EXPECT_TRUE(trend_of(values).grows) << "the last ten are above 1.5 times the first";
}

TEST(TrendOf, FewStepsSayNothing) {
  EXPECT_FALSE(trend_of(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}).grows);
  EXPECT_TRUE(trend_of(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9}).grows);
}

TEST(TrendOf, AFallingFigureDoesNotGrow) {
  std::vector<double> values;
  for (int i = 0; i < 30; ++i) values.push_back((60 - i) * kGib);
  EXPECT_FALSE(trend_of(values).grows);
}

TEST(PhaseTrends, TellFragmentationFromALeakAndNameThePhase) {
  std::vector<StepFigure> figures;
  for (int step = -1; step < 20; ++step) {
    const Bytes grown = std::max(step, 0) * 200 * kMiB;
    figures.push_back({step, "generate", 8 * kGiB, 9 * kGiB});
    figures.push_back({step, "train_actor", 30 * kGiB, 32 * kGiB + grown});
    figures.push_back({step, "reward", 4 * kGiB + grown, 6 * kGiB + grown});
  }
  const std::vector<PhaseTrend> trends = phase_trends(figures);
  ASSERT_EQ(trends.size(), 3u);
  EXPECT_FALSE(trends[0].allocated.grows || trends[0].reserved.grows || trends[0].fragments());
  EXPECT_TRUE(trends[1].fragments() && !trends[1].allocated.grows);
  EXPECT_TRUE(trends[2].allocated.grows && !trends[2].fragments());
  const std::string text = trend_text(trends);
  EXPECT_NE(text.find("fragmentation accumulates in train_actor"), std::string::npos) << text;
  EXPECT_NE(text.find("memory grows in reward"), std::string::npos) << text;
  EXPECT_EQ(text.find("generate"), std::string::npos) << text;
}

TEST(PhaseTrends, SayThatNothingGrows) {
  std::vector<StepFigure> figures;
  for (int step = 0; step < 12; ++step) figures.push_back({step, "train_actor", 30 * kGiB, 32 * kGiB});
  EXPECT_EQ(trend_text(phase_trends(figures)),
            "no memory grows over 12 steps, and no fragmentation accumulates\n");
  EXPECT_EQ(trend_text(phase_trends(std::span(figures).first(3))), "");
}

}  // namespace
}  // namespace headroom

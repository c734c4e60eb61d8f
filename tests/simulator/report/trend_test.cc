#include "simulator/report/trend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

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

Trend trend(const std::vector<double>& values) {
  return trend_of(values, 512);
}

constexpr unsigned kSeries = 1000;

/// How many of kSeries generated series are said to grow.
template <typename Make>
unsigned alarms(Make make) {
  unsigned out = 0;
  for (unsigned seed = 0; seed < kSeries; ++seed) out += trend(make(seed)).grows;
  return out;
}

std::size_t length(unsigned seed) {
  return 9 + seed % 150;
}

TEST(TrendOf, AWarmUpAndScatterAreNoGrowth) {
  for (double scatter : {kGib / 1024, 0.8 * kGib, 10 * kGib})
    EXPECT_LT(alarms([&](unsigned seed) { return steady(length(seed), 40 * kGib, scatter, seed); }),
              kSeries / 100)
        << scatter;
}

/// What a caching allocator keeps of scattered needs: their highest so far.
TEST(TrendOf, TheHighestOfScatterSoFarIsNoGrowth) {
  EXPECT_LT(alarms([](unsigned seed) {
              std::vector<double> values = steady(length(seed), 40 * kGib, 0.8 * kGib, seed);
              for (std::size_t i = 1; i < values.size(); ++i) values[i] = std::max(values[i], values[i - 1]);
              return values;
            }),
            kSeries / 100);
}

TEST(TrendOf, AShortFirstStepIsNoGrowth) {
  for (std::size_t steps : {9, 12, 40, 100}) {
    std::vector<double> values(steps, 40 * kGib);
    values[0] = values[1] = 10 * kGib;
    EXPECT_FALSE(trend(values).grows) << steps;
  }
  EXPECT_LT(alarms([](unsigned seed) {
              std::vector<double> values = steady(length(seed), 40 * kGib, 0.5 * kGib, seed);
              values[1] = 10 * kGib;
              return values;
            }),
            kSeries / 100);
}

TEST(TrendOf, OneJumpIsNoGrowthWhereverItStands) {
  for (double height : {0.25, 4.0, 30.0}) {
    for (std::size_t at = 1; at < 40; ++at) {
      std::vector<double> values(40, 40 * kGib);
      std::fill(values.begin() + static_cast<std::ptrdiff_t>(at), values.end(), (40 + height) * kGib);
      EXPECT_FALSE(trend(values).grows) << height << " at " << at;
    }
    EXPECT_LT(alarms([&](unsigned seed) {
                std::vector<double> values = steady(length(seed), 40 * kGib, 0.5 * kGib, seed);
                for (std::size_t i = 1 + seed * 7 % values.size(); i < values.size(); ++i)
                  values[i] += height * kGib;
                return values;
              }),
              kSeries / 100)
        << height;
  }
}

TEST(TrendOf, ASawtoothIsNoGrowth) {
  for (std::size_t period = 2; period <= 20; ++period)
    for (std::size_t steps = 3 * period + 8; steps < 120; steps += 7) {
      std::vector<double> values;
      for (std::size_t i = 0; i < steps; ++i)
        values.push_back(10 * kGib + static_cast<double>(i % period) * kGib);
      EXPECT_FALSE(trend(values).grows) << period << " in " << steps;
    }
}

TEST(TrendOf, AFallingFigureDoesNotGrow) {
  EXPECT_EQ(alarms([](unsigned seed) {
              std::vector<double> values = steady(length(seed), 60 * kGib, 0.5 * kGib, seed);
              for (std::size_t i = 0; i < values.size(); ++i)
                values[i] -= static_cast<double>(i) * 0.1 * kGib;
              return values;
            }),
            0u);
}

/// Its height beside the level does not matter: these rise by less than one percent.
TEST(TrendOf, FindsASlowLine) {
  for (const auto& [steps, mib] : {std::pair{100, 4.0}, {12, 40.0}, {9, 1.0}, {1000, 0.01}}) {
    std::vector<double> values;
    for (int i = 0; i < steps; ++i) values.push_back(60 * kGib + i * std::floor(mib * (1 << 20)));
    const Trend found = trend(values);
    EXPECT_TRUE(found.grows) << steps << " of " << mib << " MiB";
    EXPECT_TRUE(std::isinf(found.significance));
    EXPECT_NEAR(found.slope, mib * (1 << 20), 1);
  }
}

/// A line that rises by at least eight times its scatter, over thirty steps or more.
TEST(TrendOf, FindsALeakUnderScatter) {
  for (double slope : {0.001, 0.01, 0.1, 1.0})
    EXPECT_GT(alarms([&](unsigned seed) {
                const std::size_t steps = 30 + seed % 120;
                std::vector<double> values =
                    steady(steps, 40 * kGib, slope * static_cast<double>(steps) / 8 * kGib, seed);
                for (std::size_t i = 0; i < steps; ++i) values[i] += static_cast<double>(i) * slope * kGib;
                return values;
              }),
              kSeries * 98 / 100)
        << slope;
}

TEST(TrendOf, FindsALeakBesideAJumpAndInStairs) {
  std::vector<double> jump, stairs;
  for (int i = 0; i < 60; ++i) {
    jump.push_back((40 + (i >= 20 ? 8 : 0) + 0.004 * i) * kGib);
    stairs.push_back((40 + 0.02 * (i / 5)) * kGib);
  }
  EXPECT_TRUE(trend(jump).grows);
  EXPECT_NEAR(trend(jump).slope, 0.004 * kGib, 1e-4 * kGib);
  EXPECT_TRUE(trend(stairs).grows);
}

TEST(TrendOf, ARiseThatEndsIsNoGrowth) {
  std::vector<double> values;
  for (int i = 0; i < 80; ++i) values.push_back((10 + std::min(i, 20)) * kGib);
  EXPECT_FALSE(trend(values).grows);
}

TEST(TrendOf, AFewBlocksAreNoGrowth) {
  std::vector<double> values;
  for (int i = 0; i < 12; ++i) values.push_back(kGib + 128.0 * i);
  EXPECT_FALSE(trend(values).grows);
  for (int i = 0; i < 12; ++i) values[static_cast<std::size_t>(i)] = kGib + 512.0 * i;
  EXPECT_TRUE(trend(values).grows);
}

TEST(TrendOf, FewStepsSayNothing) {
  std::vector<double> values;
  for (int i = 0; i < 8; ++i) values.push_back((1 + i) * kGib);
  EXPECT_FALSE(trend(values).grows);
  values.push_back(9 * kGib);
  EXPECT_TRUE(trend(values).grows);
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

std::string text_of(Bytes allocated_a_step, Bytes reserved_a_step) {
  std::vector<StepFigure> figures;
  for (int step = 0; step < 40; ++step)
    figures.push_back(
        {step, "train_actor", 30 * kGiB + step * allocated_a_step, 60 * kGiB + step * reserved_a_step});
  return trend_text(phase_trends(figures));
}

TEST(PhaseTrends, ALeakAndFragmentationInOnePhaseAreBothSaid) {
  const std::string text = text_of(100 * kMiB, 300 * kMiB);
  EXPECT_NE(text.find("memory grows in train_actor: allocated"), std::string::npos) << text;
  EXPECT_NE(text.find("100.00 MiB a step"), std::string::npos) << text;
  EXPECT_NE(text.find("fragmentation accumulates in train_actor"), std::string::npos) << text;
  EXPECT_NE(text.find("200.00 MiB a step"), std::string::npos) << text;
}

TEST(PhaseTrends, NoFragmentationWhereReservedStays) {
  EXPECT_EQ(text_of(-100 * kMiB, 0), "no memory grows over 40 steps, and no fragmentation accumulates\n");
  EXPECT_EQ(text_of(-100 * kMiB, -20 * kMiB),
            "no memory grows over 40 steps, and no fragmentation accumulates\n");
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

#include "simulator/closed_form/peak_terms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace headroom::closed_form {
namespace {

/// Knobs: rows, shards. A program whose highest moment changes with the knobs.
Trajectory program(double rows, double shards) {
  const auto bytes = [](double x) { return static_cast<Bytes>(std::llround(x)); };
  return {{bytes(1e6 + 4096 * rows), bytes(1e6 + 8e9 / shards), bytes(1e6 + 1e9 / shards + 2048 * rows)},
          {bytes(16e9 / shards + 100 * rows)}};
}

const std::vector<Monomial> kBasis = {{{0, 0}}, {{1, 0}}, {{0, -1}}};
const std::vector<std::vector<double>> kPoints = {{1024, 1}, {1048576, 1}, {1024, 64}};

TEST(PeakTerms, AreExactBetweenTheSamplePoints) {
  const auto terms = PeakTerms::fit(
      kBasis, kPoints, [](std::span<const double> x) -> Result<Trajectory> { return program(x[0], x[1]); });
  ASSERT_TRUE(terms) << terms.error().text();
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    const std::vector<double> x = {static_cast<double>(1024 + random() % 1000000),
                                   static_cast<double>(1 + random() % 64)};
    const auto exact = program(x[0], x[1]);
    for (std::size_t phase = 0; phase < 2; ++phase) {
      const auto peak = static_cast<double>(*std::max_element(exact[phase].begin(), exact[phase].end()));
      EXPECT_NEAR(terms->peak(phase, x), peak, 1e-6 * peak);
    }
  }
}

TEST(PeakTerms, ManyPointsAtOnceEqualOneByOne) {
  const auto terms = PeakTerms::fit(
      kBasis, kPoints, [](std::span<const double> x) -> Result<Trajectory> { return program(x[0], x[1]); });
  ASSERT_TRUE(terms);
  std::vector<double> knobs;
  for (int i = 0; i < 1000; ++i) knobs.insert(knobs.end(), {1024.0 + 37 * i, 1.0 + i % 64});
  std::vector<double> peaks(2 * 1000);
  terms->peaks(knobs, 1000, peaks);
  for (std::size_t i = 0; i < 1000; ++i)
    for (std::size_t phase = 0; phase < 2; ++phase)
      EXPECT_DOUBLE_EQ(peaks[phase * 1000 + i], terms->peak(phase, std::span(knobs).subspan(2 * i, 2)));
}

TEST(PeakTerms, KeepsOnlyMomentsThatCanBeHighest) {
  const auto terms = PeakTerms::fit({{{0}}, {{1}}}, std::vector<std::vector<double>>{{1}, {100}},
                                    [](std::span<const double> x) -> Result<Trajectory> {
                                      std::vector<Bytes> moments;
                                      for (int m = 0; m < 1000; ++m)
                                        moments.push_back(static_cast<Bytes>(x[0]) * m);
                                      return Trajectory{moments};
                                    });
  ASSERT_TRUE(terms);
  EXPECT_EQ(terms->terms(0), 1u);
}

TEST(PeakTerms, RefusesWhatItCannotFit) {
  const auto constant = [](std::span<const double>) -> Result<Trajectory> { return Trajectory{{1}}; };
  EXPECT_FALSE(PeakTerms::fit(kBasis, std::span(kPoints).first(2), constant));
  const std::vector<std::vector<double>> same = {{1, 1}, {1, 1}, {1, 1}};
  EXPECT_FALSE(PeakTerms::fit(kBasis, same, constant));
  const auto changing = [](std::span<const double> x) -> Result<Trajectory> {
    return Trajectory{std::vector<Bytes>(static_cast<std::size_t>(x[1]), 1)};
  };
  EXPECT_FALSE(PeakTerms::fit(kBasis, kPoints, changing));
}

}  // namespace
}  // namespace headroom::closed_form

#include "planner/search/solve_number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace headroom::search {
namespace {

/// A run whose memory grows with a power of its number, of which only some values exist.
struct Growing {
  double per_unit = 1, power = 1;
  Bytes budget = 100;
  std::int64_t multiple = 1, most = std::int64_t{1} << 40;
  bool falls = false;  ///< more of it needs less, as of GPUs
  int exact_runs = 0;

  std::string refusal(std::int64_t value) const {
    return value < 1 || value % multiple != 0 || value > most ? "no such run" : "";
  }
  Outcome outcome(std::int64_t value, Bytes extra) const {
    Outcome out;
    if (!(out.refusal = refusal(value)).empty()) return out;
    out.valid = true;
    const double size = std::pow(static_cast<double>(value), falls ? -power : power);
    out.spare = budget - static_cast<Bytes>(per_unit * size) - extra;
    out.fits = out.spare >= 0;
    return out;
  }
  Result<Solution> solve(std::int64_t current, bool smallest = false) {
    return solve_number("number", {std::to_string(current), smallest},
                        {[this](const std::string& v) { return refusal(std::stoll(v)); },
                         [this](const std::string& v) { return outcome(std::stoll(v), 0); },
                         [this](const std::string& v) { return ++exact_runs, outcome(std::stoll(v), 3); }});
  }
};

TEST(SolveNumber, IsExactOnBothSides) {
  Growing run{.per_unit = 2, .budget = 20'003};
  const Solution found = run.solve(1024).value();
  EXPECT_EQ(found.fits->value, "10000");
  EXPECT_EQ(found.beyond->value, "10001");
  EXPECT_EQ(found.beyond->outcome.spare, -2);
  EXPECT_LE(run.exact_runs, 8);
}

TEST(SolveNumber, GoesDownWhereTheRunDoesNotFit) {
  Growing run{.per_unit = 1, .power = 2, .budget = 10'003};
  const Solution found = run.solve(4096).value();
  EXPECT_EQ(found.fits->value, "100");
  EXPECT_EQ(found.beyond->value, "101");
}

TEST(SolveNumber, ValuesThatTheFrameworkRefusesDoNotExist) {
  Growing run{.per_unit = 1, .budget = 1'003, .multiple = 24};
  const Solution found = run.solve(96).value();
  EXPECT_EQ(found.fits->value, "984");
  EXPECT_EQ(found.beyond->value, "1008");
}

TEST(SolveNumber, WhereAllElseIsRefusedIsTheEdge) {
  Growing run{.per_unit = 1, .budget = 1'000'000, .most = 777};
  const Solution found = run.solve(100).value();
  EXPECT_EQ(found.fits->value, "777");
  EXPECT_EQ(found.beyond->value, "778");
  EXPECT_EQ(found.beyond->outcome.refusal, "no such run");
}

TEST(SolveNumber, FewerAreWantedOfGpus) {
  Growing run{.per_unit = 1'000, .budget = 153, .multiple = 1, .falls = true};
  const Solution found = run.solve(64, true).value();
  EXPECT_EQ(found.fits->value, "7");
  EXPECT_EQ(found.beyond->value, "6");
  EXPECT_EQ(run.solve(2, true).value().fits->value, "7");
}

TEST(SolveNumber, NothingFitsAndNothingIsInTheWay) {
  Growing tight{.per_unit = 1'000, .budget = 100};
  const Solution none = tight.solve(8).value();
  EXPECT_FALSE(none.fits.has_value());
  EXPECT_EQ(none.beyond->value, "1");
  Growing wide{.per_unit = 0, .budget = 100};
  const Solution all = wide.solve(8).value();
  EXPECT_EQ(all.fits->value, "1024");  // 64 times what counts as the least to begin with
  EXPECT_FALSE(all.beyond.has_value());
  EXPECT_FALSE(solve_number("number", {"many", false}, {}).has_value());
}

TEST(SolveNumber, SharesGoInHundredths) {
  const auto outcome = [](const std::string& value) {
    Outcome out;
    out.valid = true;
    out.spare = static_cast<Bytes>(1'000 * (0.574 - std::stod(value)));
    out.fits = out.spare >= 0;
    return out;
  };
  const Solution found =
      solve_number("share", {"0.3", false}, {[](const std::string&) { return std::string(); }, outcome, outcome})
          .value();
  EXPECT_EQ(found.fits->value, "0.57");
  EXPECT_EQ(found.beyond->value, "0.58");
}

/// The same as looking at every value.
TEST(SolveNumber, MatchesEveryValueLookedAt) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    Growing run{.per_unit = 1 + static_cast<double>(random() % 50),
                .power = 0.5 + static_cast<double>(random() % 16) / 10,
                .budget = static_cast<Bytes>(10 + random() % 100'000),
                .multiple = static_cast<std::int64_t>(1 + random() % 12),
                .falls = false};
    const std::int64_t current = run.multiple * static_cast<std::int64_t>(1 + random() % 200);
    std::int64_t best = 0;
    for (std::int64_t v = 1; v <= current * 64; ++v)
      if (v >= (current + 63) / 64 && run.outcome(v, 3).valid && run.outcome(v, 3).fits) best = v;
    const Solution found = run.solve(current).value();
    ASSERT_EQ(found.fits ? found.fits->value : "0", std::to_string(best))
        << current << " by " << run.multiple << ", power " << run.power << " within " << run.budget;
  }
}

}  // namespace
}  // namespace headroom::search

#include "planner/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace headroom::search {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Knob knob(std::string name, std::string current, std::vector<std::string> values, bool numerics = false) {
  return {std::move(name), "", numerics, std::move(current), std::move(values)};
}

const std::vector<Knob> kKnobs = {knob("micro_batch", "4", {"1", "2", "4", "8"}),
                                  knob("offload", "false", {"false", "true"}),
                                  knob("dtype", "fp32", {"bf16", "fp32"}, true)};

TEST(Space, LeavesNumericsAloneUnlessAsked) {
  const Space space = make_space(kKnobs, {}, {}).value();
  ASSERT_EQ(space.dimensions.size(), 2u);
  EXPECT_EQ(space.current(), (Point{2, 0}));
  EXPECT_EQ(space.size(), 8);
  const std::vector<std::string> vary = {"dtype"};
  EXPECT_EQ(make_space(kKnobs, vary, {}).value().dimensions.size(), 1u);
  EXPECT_EQ(make_space(kKnobs, {}, {}, true).value().dimensions.size(), 3u);
}

TEST(Space, ChoicesAreDifferencesFromTheRun) {
  const std::vector<std::string> fix = {"offload=true"};
  const Space space = make_space(kKnobs, {}, fix).value();
  EXPECT_THAT(space.choices({2}), ElementsAre(Choice{"offload", "true"}));
  EXPECT_THAT(space.choices({0}), ElementsAre(Choice{"offload", "true"}, Choice{"micro_batch", "1"}));
}

TEST(Space, VariesOverTheValuesGiven) {
  const std::vector<std::string> vary = {"micro_batch=1,8"};
  const Space space = make_space(kKnobs, vary, {}).value();
  EXPECT_THAT(space.dimensions.at(0).values, ElementsAre("1", "8"));
  EXPECT_THAT(space.choices(space.current()), ElementsAre(Choice{"micro_batch", "1"}));
}

TEST(Space, KnowsWhatStands) {
  const std::vector<std::string> vary = {"micro_batch"}, fix = {"offload=true"};
  EXPECT_THAT(make_space(kKnobs, vary, {}).value().standing,
              ElementsAre(Choice{"offload", "false"}, Choice{"dtype", "fp32"}));
  EXPECT_THAT(make_space(kKnobs, {}, fix).value().standing,
              ElementsAre(Choice{"offload", "true"}, Choice{"dtype", "fp32"}));
}

TEST(Space, NamesWhatItDoesNotKnow) {
  const auto message = [](std::vector<std::string> vary, std::vector<std::string> fix) {
    return make_space(kKnobs, vary, fix).error().text();
  };
  EXPECT_THAT(message({"micro_bach"}, {}),
              HasSubstr("--vary: unknown knob 'micro_bach', did you mean 'micro_batch'?"));
  EXPECT_THAT(message({}, {"offload=maybe"}), HasSubstr("expected one of false, true, found 'maybe'"));
  EXPECT_THAT(message({"offload"}, {"offload"}), HasSubstr("also given to --vary"));
}

/// A made-up run: each knob adds memory and takes or saves time; two knobs work only together.
struct Model {
  std::vector<std::vector<Bytes>> memory;
  std::vector<std::vector<double>> seconds;
  Bytes budget = 0;
  std::int64_t calls = 0;

  Outcome at(const Point& point) const {
    Outcome out;
    out.valid = true;
    for (std::size_t i = 0; i < point.size(); ++i) {
      out.peak_device += memory[i][point[i]];
      out.seconds += seconds[i][point[i]];
    }
    out.spare = budget - out.peak_device;
    out.fits = out.spare >= 0;
    return out;
  }
  Evaluate evaluate() {
    return [this](std::span<const Point> points) {
      std::vector<Outcome> outcomes;
      for (const Point& point : points) outcomes.push_back(at(point));
      calls += static_cast<std::int64_t>(points.size());
      return outcomes;
    };
  }
};

Space space_of(const Model& model) {
  Space space;
  for (const auto& values : model.memory) {
    Dimension dimension;
    dimension.knob.name = "k" + std::to_string(space.dimensions.size());
    for (std::size_t i = 0; i < values.size(); ++i) dimension.values.push_back(std::to_string(i));
    dimension.knob.current = "0";
    space.dimensions.push_back(dimension);
  }
  return space;
}

/// The best by trying everything.
double exhaustive(const Model& model) {
  double best = 1e300;
  Point point(model.memory.size(), 0);
  while (true) {
    const Outcome outcome = model.at(point);
    if (outcome.fits) best = std::min(best, outcome.seconds);
    std::size_t i = 0;
    while (i < point.size() && ++point[i] == model.memory[i].size()) point[i++] = 0;
    if (i == point.size()) return best;
  }
}

// Twelve knobs of three values: half a million configurations. What the search finds after a few thousand is
// held against all of them.
TEST(Search, ComesCloseToTheBestOfAll) {
  std::mt19937 random(3);
  for (int round = 0; round < 3; ++round) {
    Model model;
    model.budget = 600;
    for (int knob = 0; knob < 12; ++knob) {
      std::vector<Bytes> memory;
      std::vector<double> seconds;
      for (int value = 0; value < 3; ++value) {
        memory.push_back(static_cast<Bytes>(random() % 100));
        seconds.push_back(1 + static_cast<double>(random() % 1000) / 100);
      }
      // The trade that real knobs make: less memory, more time.
      std::sort(memory.begin(), memory.end());
      std::sort(seconds.rbegin(), seconds.rend());
      model.memory.push_back(memory);
      model.seconds.push_back(seconds);
    }
    const Space space = space_of(model);
    const Findings result = search(space, model.evaluate());
    ASSERT_FALSE(result.feasible.empty());
    EXPECT_LE(result.feasible[0].outcome.seconds, 1.03 * exhaustive(model));
    EXPECT_LT(result.evaluated, 20'000);
    EXPECT_EQ(result.evaluated, model.calls);  // nothing is run twice
  }
}

TEST(Search, RunsASmallSpaceWhole) {
  Model model{{{10, 0}, {20, 0}, {0, 5}}, {{1, 3}, {1, 2}, {2, 1}}, 15};
  const Findings result = search(space_of(model), model.evaluate());
  EXPECT_EQ(result.evaluated, 8);
  ASSERT_EQ(result.feasible.size(), 4u);
  EXPECT_EQ(result.feasible[0].point, (Point{0, 1, 1}));
  EXPECT_EQ(result.nearest[0].outcome.spare, -5);
}

TEST(Search, PrefersFewerChangesAmongEquals) {
  Model model{{{0, 0}, {0, 0}}, {{1, 1}, {1, 1}}, 10};
  EXPECT_EQ(search(space_of(model), model.evaluate()).feasible[0].point, (Point{0, 0}));
}

TEST(Search, CountsRefusedCombinationsApart) {
  Model model{{{0, 0}, {0, 0}}, {{1, 1}, {1, 1}}, 10};
  const Evaluate refuse_some = [&](std::span<const Point> points) {
    std::vector<Outcome> outcomes;
    for (const Point& point : points) {
      outcomes.push_back(model.at(point));
      if (point[0] == 1 && point[1] == 1) outcomes.back() = Outcome{};
    }
    return outcomes;
  };
  const Findings result = search(space_of(model), refuse_some);
  EXPECT_EQ(result.evaluated, 3);
  EXPECT_EQ(result.pruned, 1);
}

TEST(Search, MemoryObjectiveSparesMost) {
  Model model{{{10, 0}, {5, 1}}, {{1, 3}, {1, 2}}, 15};
  Options options;
  options.objective = Objective::memory;
  EXPECT_EQ(search(space_of(model), model.evaluate(), options).feasible[0].point, (Point{1, 1}));
}

TEST(Pareto, KeepsWhatNothingBeats) {
  const auto found = [](double seconds, Bytes spare) {
    Found one;
    one.outcome.seconds = seconds;
    one.outcome.spare = spare;
    return one;
  };
  const std::vector<Found> all = {found(3, 10), found(1, 2), found(2, 1), found(2, 5), found(4, 9)};
  const std::vector<Found> front = pareto(all);
  ASSERT_EQ(front.size(), 3u);
  EXPECT_EQ(front[0].outcome.spare, 2);
  EXPECT_EQ(front[1].outcome.spare, 5);
  EXPECT_EQ(front[2].outcome.spare, 10);
}

TEST(Outcome, TakesTheLastStepsTimeAndTheTightestPhase) {
  PhaseReport first, last;
  first.phase = "generate";
  first.peak_device = 50;
  first.seconds = 9;
  last.step = 1;
  last.phase = "train_actor";
  last.peak_device = 70;
  last.margin = 5;
  last.seconds = 4;
  DeviceReport device;
  device.phases = {first, last};
  Report report;
  report.budget = 100;
  report.devices = {device};
  const Outcome outcome = outcome_of(report);
  EXPECT_EQ(outcome.seconds, 4);
  EXPECT_EQ(outcome.limiting_phase, "train_actor");
  EXPECT_EQ(outcome.spare, 25);
  DeviceReport alone = report.devices[0];  // another pool, with a budget of its own
  alone.budget = 60;
  alone.phases.resize(1);
  report.devices.push_back(alone);
  EXPECT_EQ(outcome_of(report).spare, 10);
  EXPECT_EQ(outcome_of(report).budget, 60);
  EXPECT_EQ(outcome_of(report).limiting_phase, "generate");
  report.fits = false;  // an engine does not start
  EXPECT_LT(outcome_of(report).spare, 0);
}

}  // namespace
}  // namespace headroom::search

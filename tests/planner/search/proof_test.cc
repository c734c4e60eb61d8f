#include "planner/search/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "planner/search/fewest_changes.h"

namespace headroom::search {
namespace {

using Order = Knob::Order;

/// A made-up run of two phases. Ordered knobs trade memory of one phase for time; exact runs take a little
/// more than quick ones; some combinations are refused; a share of the card may be too small for an engine.
struct MadeUp {
  Space space;
  std::vector<std::vector<Bytes>> memory;
  std::vector<std::vector<double>> seconds;
  std::vector<int> phase;
  Bytes budget = 0, more = 0;
  bool refuses = false;
  int engine = -1;  ///< knob whose first value does not start
  mutable std::int64_t quick_runs = 0, exact_runs = 0;

  Outcome at(const Point& point, Bytes extra) const {
    Outcome out;
    if (refuses && point[0] == 1 && point[1] + 1u == space.dimensions[1].values.size()) return out;
    out.valid = true;
    Bytes need[2] = {10 + extra, 10 + extra};
    for (std::size_t i = 0; i < point.size(); ++i) {
      need[phase[i]] += memory[i][point[i]];
      out.seconds += seconds[i][point[i]];
    }
    out.phases = {{"generate", budget - need[0]}, {"train", budget - need[1]}};
    const bool first = out.phases[0].spare < out.phases[1].spare;
    out.limiting_phase = first ? "generate" : "train";
    out.spare = out.device_spare = std::min(out.phases[0].spare, out.phases[1].spare);
    out.breaks = engine >= 0 && point[engine] == 0;
    out.fits = out.spare >= 0 && !out.breaks;
    if (out.breaks) {
      out.seconds = 0;
      out.device_spare = std::min<Bytes>(out.spare, -1);
    }
    return out;
  }
  Evaluate quick() const {
    return [this](std::span<const Point> points) {
      std::vector<Outcome> out;
      for (const Point& point : points) out.push_back(at(point, 0));
      quick_runs += static_cast<std::int64_t>(points.size());
      return out;
    };
  }
  Evaluate exact() const {
    return [this](std::span<const Point> points) {
      std::vector<Outcome> out;
      for (const Point& point : points) out.push_back(at(point, more));
      exact_runs += static_cast<std::int64_t>(points.size());
      return out;
    };
  }
};

MadeUp made_up(std::mt19937& random) {
  MadeUp run;
  const std::size_t knobs = 4 + random() % 3;
  for (std::size_t i = 0; i < knobs; ++i) {
    const std::size_t values = 2 + random() % 3;
    std::vector<Bytes> memory;
    std::vector<double> seconds;
    for (std::size_t v = 0; v < values; ++v) {
      memory.push_back(static_cast<Bytes>(random() % 30));
      seconds.push_back(1 + static_cast<double>(random() % 400) / 100);
    }
    Dimension dimension;
    dimension.knob.name = "k" + std::to_string(i);
    const Order orders[] = {Order::none, Order::rises, Order::falls, Order::window};
    dimension.knob.order = i == 0 ? Order::none : orders[random() % 4];
    if (dimension.knob.order != Order::none) {
      std::sort(memory.begin(), memory.end());
      std::sort(seconds.rbegin(), seconds.rend());
    }
    if (dimension.knob.order == Order::falls) {
      std::reverse(memory.begin(), memory.end());
      std::reverse(seconds.begin(), seconds.end());
    }
    if (dimension.knob.order == Order::window && run.engine < 0) run.engine = static_cast<int>(i);
    for (std::size_t v = 0; v < values; ++v) dimension.values.push_back(std::to_string(v));
    dimension.current = random() % values;
    dimension.knob.current = dimension.values[dimension.current];
    run.space.dimensions.push_back(dimension);
    run.memory.push_back(memory);
    run.seconds.push_back(seconds);
    run.phase.push_back(static_cast<int>(random() % 2));
  }
  run.budget = 30 + static_cast<Bytes>(random() % 80);
  run.more = static_cast<Bytes>(random() % 8);
  run.refuses = random() % 2 == 0;
  return run;
}

std::vector<Point> every_point(const Space& space) {
  std::vector<Point> out{Point(space.dimensions.size(), 0)};
  for (std::size_t i = 0; i < space.dimensions.size(); ++i) {
    std::vector<Point> more;
    for (const Point& point : out)
      for (std::uint16_t v = 0; v < space.dimensions[i].values.size(); ++v) {
        more.push_back(point);
        more.back()[i] = v;
      }
    out = std::move(more);
  }
  return out;
}

TEST(Proof, FindsWhatTryingEverythingFinds) {
  std::mt19937 random(11);
  int winners = 0;
  for (int round = 0; round < 400; ++round) {
    const MadeUp run = made_up(random);
    double best = 1e300;
    double refused = 0;
    for (const Point& point : every_point(run.space)) {
      const Outcome outcome = run.at(point, run.more);
      refused += outcome.valid ? 0 : 1;
      if (outcome.fits) best = std::min(best, outcome.seconds);
    }
    Prover prover(run.space, run.quick(), run.exact(), {.most_evaluations = 1'000'000, .most_exact_runs = 100'000});
    const Proof proof = prover.run(std::nullopt);
    ASSERT_TRUE(proof.complete());
    ASSERT_EQ(proof.found.has_value(), best < 1e299) << round;
    if (proof.found) {
      EXPECT_LE(proof.found->quick.seconds, best * 1.0002) << round;
      ++winners;
    }
    EXPECT_DOUBLE_EQ(proof.refused + proof.too_large + proof.too_large_exactly + proof.slower + proof.winner +
                         proof.undecided,
                     proof.space);
    EXPECT_LE(proof.refused, refused);  // others are done before anybody asks whether they are refused
  }
  EXPECT_GT(winners, 100);
}

TEST(Proof, AWinnerGivenLeavesLessToRun) {
  std::mt19937 random(5);
  std::int64_t with = 0, without = 0;
  for (int round = 0; round < 50; ++round) {
    const MadeUp run = made_up(random);
    Prover first(run.space, run.quick(), run.exact(), {});
    const Proof proof = first.run(std::nullopt);
    if (!proof.found) continue;
    Prover second(run.space, run.quick(), run.exact(), {});
    const Proof again = second.run(proof.found);
    EXPECT_FALSE(again.found.has_value());
    EXPECT_TRUE(again.complete());
    with += again.exact_runs;
    without += proof.exact_runs;
  }
  EXPECT_LT(with, without);
}

TEST(Proof, SaysWhatItLeaves) {
  std::mt19937 random(7);
  const MadeUp run = made_up(random);
  const Proof proof = Prover(run.space, run.quick(), run.exact(), {.most_evaluations = 1}).run(std::nullopt);
  EXPECT_FALSE(proof.complete());
  EXPECT_GT(proof.undecided, 0);
}

TEST(Proof, LeavesInertKnobsAlone) {
  MadeUp run;
  for (const char* name : {"mode", "size"}) {
    Dimension dimension;
    dimension.knob.name = name;
    dimension.values = {"0", "1"};
    dimension.knob.current = "0";
    run.space.dimensions.push_back(dimension);
  }
  run.space.dimensions[1].knob.order = Order::rises;
  run.space.dimensions[1].knob.needs = {"mode", "1"};
  run.memory = {{0, 0}, {0, 5}};
  run.seconds = {{2, 2}, {1, 1}};
  run.phase = {0, 0};
  run.budget = 100;
  const Proof proof = Prover(run.space, run.quick(), run.exact(), {}).run(std::nullopt);
  EXPECT_EQ(proof.space, 4);
  EXPECT_EQ(proof.evaluated, 2);  // (0, the run's own) stands for both sizes, (1, 1) bounds the other two
}

TEST(FewestChanges, TakesBackWhatIsNotNeeded) {
  MadeUp run;
  for (int i = 0; i < 3; ++i) {
    Dimension dimension;
    dimension.knob.name = "k" + std::to_string(i);
    dimension.values = {"0", "1"};
    dimension.knob.current = "0";
    run.space.dimensions.push_back(dimension);
  }
  // The first saves memory that is needed, the second 1 % of the time, the third nothing.
  run.memory = {{95, 0}, {0, 0}, {0, 0}};
  run.seconds = {{10, 10}, {10, 9.7}, {1, 1}};
  run.phase = {0, 0, 0};
  run.budget = 100;
  const Point winner{1, 1, 1};
  const Found found{winner, run.at(winner, 0), run.at(winner, 0)};
  const auto fewest = fewest_changes(run.space, run.quick(), run.exact(), found);
  ASSERT_TRUE(fewest.has_value());
  EXPECT_EQ(fewest->point, (Point{1, 0, 0}));
  EXPECT_EQ(fewest_changes(run.space, run.quick(), run.exact(), found, {.tolerance = 0.001})->point, (Point{1, 1, 0}));
}

}  // namespace
}  // namespace headroom::search

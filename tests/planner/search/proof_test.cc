#include "planner/search/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "planner/search/fewest_changes.h"

namespace headroom::search {
namespace {

/// A made-up run of two phases. A knob touches one of them or both, in time, memory or both, with ends that are
/// known or not; exact runs take a little more than quick ones; some combinations are refused; a phase may not get
/// through with one value of a knob.
struct MadeUp {
  Space space;
  /// By phase, knob and value; empty: the knob does not touch it.
  std::vector<std::vector<Bytes>> memory[2];
  std::vector<std::vector<double>> seconds[2];
  std::vector<PhaseGroup> groups;
  Bytes budget = 0, more = 0;
  bool refuses = false;
  int engine = -1;  ///< knob whose first value does not get through the first phase
  mutable std::int64_t quick_runs = 0, exact_runs = 0;

  Outcome at(const Point& point, Bytes extra) const {
    Outcome out;
    if (refuses && point[0] == 1 && point[1] + 1u == space.dimensions[1].values.size()) return out;
    out.valid = true;
    for (int p = 0; p < 2; ++p) {
      PhaseOutcome phase{p == 0 ? "generate" : "train", 0, 0, 0, 0, false};
      Bytes need = 10 + extra;
      for (std::size_t i = 0; i < point.size(); ++i) {
        if (!memory[p][i].empty()) need += memory[p][i][point[i]];
        if (!seconds[p][i].empty()) phase.seconds += seconds[p][i][point[i]];
      }
      phase.spare = budget - need;
      out.seconds += phase.seconds;
      phase.runs_out = p == 0 && engine >= 0 && point[engine] == 0;
      if (phase.runs_out) phase.spare = std::min<Bytes>(phase.spare, -1);
      out.phases.push_back(phase);
      if (phase.runs_out) break;
    }
    out.breaks = out.phases.size() == 1;
    if (out.breaks) out.seconds = 0;
    for (const PhaseOutcome& phase : out.phases) {
      if (phase.phase != out.phases[0].phase && phase.spare >= out.spare) continue;
      out.spare = out.device_spare = phase.spare;
      out.limiting_phase = phase.phase;
    }
    out.fits = out.spare >= 0 && !out.breaks;
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
  Proof prove(const ProofOptions& options = {.most_evaluations = 1'000'000, .most_exact_runs = 100'000}) const {
    const Evaluate all = quick();
    GroupTables tables(space, groups, [&](std::size_t, std::span<const Point> points) { return all(points); }, 0);
    return Prover(space, tables, quick(), exact(), options).run();
  }
};

/// Numbers that fall towards an end, or stand anyhow.
template <typename T>
std::vector<T> towards(End end, std::vector<T> numbers) {
  if (end == End::none) return numbers;
  std::sort(numbers.begin(), numbers.end());
  if (end == End::last) std::reverse(numbers.begin(), numbers.end());
  return numbers;
}

MadeUp made_up(std::mt19937& random) {
  MadeUp run;
  run.groups = {{{"generate"}, {}}, {{"train"}, {}}};
  const std::size_t knobs = 4 + random() % 3;
  const End ends[] = {End::none, End::first, End::last};
  for (std::size_t i = 0; i < knobs; ++i) {
    const std::size_t values = 2 + random() % 3;
    Dimension dimension;
    dimension.knob.name = "k" + std::to_string(i);
    for (std::size_t v = 0; v < values; ++v) dimension.values.push_back(std::to_string(v));
    dimension.current = random() % values;
    dimension.knob.current = dimension.values[dimension.current];
    run.space.dimensions.push_back(dimension);
    for (int p = 0; p < 2; ++p) {
      DimensionEffect effect;
      // What decides whether a combination is refused touches everything, as declared knobs that do.
      const bool touches = i < 2 || random() % 3 != 0;
      std::vector<Bytes> memory;
      std::vector<double> seconds;
      for (std::size_t v = 0; v < values; ++v) {
        memory.push_back(static_cast<Bytes>(random() % 30));
        seconds.push_back(1 + static_cast<double>(random() % 400) / 100);
      }
      effect.seconds = touches && random() % 4 != 0;
      effect.memory = touches && (i < 2 || !effect.seconds || random() % 2 == 0);
      if (effect.seconds) effect.faster = ends[random() % 3];
      if (effect.memory) effect.frugal = ends[random() % 3];
      seconds = towards(effect.faster, seconds);
      if (effect.seconds && effect.faster != End::none && random() % 3 == 0) {
        effect.slack = 0.1;  // any value may be as much slower than those before it
        for (double& one : seconds) one *= 1 + static_cast<double>(random() % 100) / 1000;
      }
      memory = towards(effect.frugal, memory);
      if (effect.memory && effect.frugal == End::first && random() % 3 == 0) {
        effect.spares_at_end = true;
        memory.back() = static_cast<Bytes>(random() % 30);
      }
      run.memory[p].push_back(effect.memory ? memory : std::vector<Bytes>{});
      run.seconds[p].push_back(effect.seconds ? seconds : std::vector<double>{});
      run.groups[p].effects.push_back(effect);
    }
  }
  if (random() % 3 == 0 && run.groups[0].effects[2].any()) run.engine = 2;
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
    const Proof proof = run.prove();
    ASSERT_TRUE(proof.complete());
    ASSERT_EQ(proof.winning.has_value(), best < 1e299) << round;
    if (proof.winning) {
      EXPECT_NEAR(proof.winning->quick.seconds, best, 1e-5 * best) << round;
      EXPECT_TRUE(run.at(proof.winning->point, run.more).fits);
      ++winners;
    }
    EXPECT_DOUBLE_EQ(proof.refused + proof.too_large + proof.too_large_exactly + proof.slower + proof.winner +
                         proof.undecided,
                     proof.space);
    EXPECT_LE(proof.refused, refused);  // others are done before anybody asks whether they are refused
  }
  EXPECT_GT(winners, 100);
}

TEST(Proof, SaysWhatItLeaves) {
  std::mt19937 random(7);
  const MadeUp run = made_up(random);
  const Proof proof = run.prove({.most_evaluations = 0});
  EXPECT_FALSE(proof.complete());
  EXPECT_GT(proof.undecided, 0);
}

// Two phases with knobs of their own: as many runs as both have values together, not multiplied.
TEST(Proof, SolvesPhasesApart) {
  MadeUp run;
  run.groups = {{{"generate"}, {}}, {{"train"}, {}}};
  for (int i = 0; i < 2; ++i) {
    Dimension dimension;
    dimension.knob.name = "k" + std::to_string(i);
    for (int v = 0; v < 50; ++v) dimension.values.push_back(std::to_string(v));
    dimension.knob.current = "0";
    run.space.dimensions.push_back(dimension);
    std::vector<Bytes> memory;
    std::vector<double> seconds;
    for (int v = 0; v < 50; ++v) {
      memory.push_back((v * 37) % 50);
      seconds.push_back(1 + (v * 23) % 50);
    }
    for (int p = 0; p < 2; ++p) {
      run.memory[p].push_back(p == i ? memory : std::vector<Bytes>{});
      run.seconds[p].push_back(p == i ? seconds : std::vector<double>{});
      DimensionEffect effect;
      effect.seconds = effect.memory = p == i;
      run.groups[p].effects.push_back(effect);
    }
  }
  run.budget = 30;
  const Proof proof = run.prove();
  EXPECT_TRUE(proof.complete());
  EXPECT_TRUE(proof.winning.has_value());
  EXPECT_EQ(proof.space, 2500);
  EXPECT_LT(run.quick_runs, 110);
}

TEST(Proof, LeavesInertKnobsAlone) {
  MadeUp run;
  run.groups = {{{"generate"}, {}}, {{"train"}, {}}};
  for (const char* name : {"mode", "size"}) {
    Dimension dimension;
    dimension.knob.name = name;
    dimension.values = {"0", "1"};
    dimension.knob.current = "0";
    run.space.dimensions.push_back(dimension);
    DimensionEffect both;
    both.seconds = both.memory = true;
    run.groups[0].effects.push_back(both);
    run.groups[1].effects.push_back({});
  }
  run.space.dimensions[1].knob.needs = {"mode", "1"};
  run.memory[0] = {{0, 0}, {0, 5}};
  run.seconds[0] = {{2, 2}, {1, 1}};
  run.memory[1] = {{}, {}};
  run.seconds[1] = {{}, {}};
  run.budget = 100;
  const Proof proof = run.prove();
  EXPECT_EQ(proof.space, 4);
  EXPECT_LE(run.quick_runs, 5);  // (0, the run's own), (1, 0), (1, 1), the other phase, and the whole once more
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
  run.memory[0] = {{95, 0}, {0, 0}, {0, 0}};
  run.seconds[0] = {{10, 10}, {10, 9.7}, {1, 1}};
  run.memory[1] = {{}, {}, {}};
  run.seconds[1] = {{}, {}, {}};
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

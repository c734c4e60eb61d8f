#include "planner/search/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/search/changes.h"
#include "planner/search/solve.h"
#include "planner/search/techniques.h"
#include "planner/writers/json.h"
#include "planner/writers/plan.h"
#include "tests/planner/search/toy.h"
#include "tests/support/json_schema.h"

namespace headroom::search {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Toy : public ::testing::Test {
 protected:
  ReadJob read = test::toy_run();

  Space space() const { return make_space(test::toy_framework().knobs(read), {}, {}).value(); }
  Plan plan(Bytes budget, Bytes extra_when_exact = 0, std::size_t top = 5) {
    PlanOptions options;
    options.top = top;
    const search::Setup setup = test::toy_setup(read, budget);
    return make_plan(setup, space(), {test::toy_executor(), test::toy_executor(extra_when_exact)}, options)
        .value();
  }
};

// By hand: within 14 GiB fit m = 1, 2, 4 without offloading (9, 5, 3 s) and with it (11, 7, 5 s).
TEST_F(Toy, RanksWhatFitsByStepTime) {
  const Plan found = plan(14 * kGiB);
  EXPECT_EQ(found.evaluated, 9);
  EXPECT_EQ(found.pruned, 1);
  EXPECT_EQ(found.feasible, 6);
  ASSERT_EQ(found.choices.size(), 5u);
  EXPECT_TRUE(found.choices[0].choices.empty());  // the run itself is the fastest
  EXPECT_EQ(found.choices[0].outcome.seconds, 3);
  EXPECT_EQ(found.choices[1].outcome.seconds, 5);
  EXPECT_TRUE(found.choices[0].pareto);
  EXPECT_TRUE(found.now.fits);
}

// On every budget as few knobs are turned as any configuration that fits turns.
TEST_F(Toy, LeastChangesAreAsFewAsCanBe) {
  const Space all = space();
  int turned[4] = {};
  for (Bytes budget = 4 * kGiB; budget <= 24 * kGiB; budget += kGiB / 2) {
    const search::Setup setup = test::toy_setup(read, budget);
    std::size_t fewest = 9;
    for (std::uint16_t m = 0; m < all.dimensions[0].values.size(); ++m)
      for (std::uint16_t o = 0; o < all.dimensions[1].values.size(); ++o) {
        const std::vector<Choice> choices = all.choices({m, o});
        const Result<Report> report = evaluate(setup, choices, test::toy_executor(kGiB));
        if (report && report->fits) fewest = std::min(fewest, choices.size());
      }
    PlanOptions options;
    options.least_changes = true;
    const Plan found =
        make_plan(setup, all, {test::toy_executor(), test::toy_executor(kGiB)}, options).value();
    SCOPED_TRACE(format_gib(budget));
    ASSERT_EQ(found.choices.empty(), fewest == 9);
    if (fewest == 9) continue;
    EXPECT_EQ(found.choices[0].choices.size(), fewest);
    ++turned[fewest];
  }
  EXPECT_GT(turned[0], 0);
  EXPECT_GT(turned[1], 0);
  EXPECT_GT(turned[2], 0);
}

TEST_F(Toy, TheExactExecutorDecides) {
  // A GiB more than the fast one says: m = 4 without offloading no longer fits.
  const Plan found = plan(14 * kGiB, kGiB, 2);
  ASSERT_EQ(found.choices.size(), 2u);
  EXPECT_EQ(found.tried, 6);  // the run, and five at least, however few are shown
  EXPECT_EQ(found.confirmed, 5);
  for (const PlanChoice& choice : found.choices) {
    EXPECT_TRUE(choice.confirmed);
    EXPECT_TRUE(choice.outcome.fits);
    EXPECT_EQ(choice.outcome.seconds, 5);
  }
  EXPECT_EQ(found.choices[0].outcome.spare, 5 * kGiB);  // equal times: more room first
  EXPECT_THAT(found.choices[0].settings, ElementsAre(Setting{"train.offload", "true"}));
}

TEST_F(Toy, SaysWhatComesClosestWhenNothingFits) {
  const Plan found = plan(3 * kGiB);
  EXPECT_TRUE(found.choices.empty());
  ASSERT_FALSE(found.nearest.empty());
  EXPECT_EQ(found.nearest[0].outcome.spare, -2 * kGiB);
  EXPECT_THAT(writers::plan_table(found, 3 * kGiB), HasSubstr("None fits. These come closest"));
}

/// Somebody asks to stop after three runs: what fits of those that were confirmed by then is told, as no proof.
TEST_F(Toy, StopsWithWhatItHas) {
  int runs = 0;
  PlanOptions options;
  options.stopped = [&] { return runs >= 3; };
  const Executor counted = [&](const Job& job, const Hardware& hardware) {
    ++runs;
    return test::toy_report(job, hardware, 0);
  };
  const search::Setup setup = test::toy_setup(read, 14 * kGiB);
  const Plan found = make_plan(setup, space(), {test::toy_executor(), counted}, options).value();
  EXPECT_TRUE(found.stopped);
  EXPECT_FALSE(found.choices.empty());
  EXPECT_FALSE(found.proof);
  EXPECT_LE(runs, 5);
  EXPECT_THAT(writers::plan_table(found, 14 * kGiB), HasSubstr("Stopped: shown is what was found by then"));
  EXPECT_TRUE(nlohmann::json::parse(writers::plan_json(found, {}))["search"]["stopped"]);
  // At once: nothing was found, and nothing is said not to fit.
  runs = 3;
  options.stopped = [] { return true; };
  const Plan none = make_plan(test::toy_setup(read, 3 * kGiB), space(), {test::toy_executor(), counted}, options).value();
  EXPECT_TRUE(none.stopped);
  EXPECT_THAT(writers::plan_verdict(none), HasSubstr("stopped before anything was found that fits"));
}

TEST_F(Toy, TableShowsRankCostAndChanges) {
  Plan found = plan(13 * kGiB, 0, 2);
  found.seconds = 0.25;
  EXPECT_EQ(
      writers::plan_table(found, 13 * kGiB),
      R"(9 of 10 configurations run in 0.25 s (1 refused): 5 fit 13.00 GiB; 5 of 6 tried in the simulator fit

rank  s/step   vs now  device  spare  host  limited by                 changes
now      3.0            14.00  -1.00  0.00  train_actor  does not fit
1        5.0  +66.7 %    8.00   5.00  0.00  train_actor  pareto        train.offload=true
2        5.0  +66.7 %   12.00   1.00  0.00  train_actor                train.micro_batch=2

What each change of the first choice gives and takes beside the others, by closed form, GiB
  s/step  frees in                                                            change
    +2.0  6.00 train_actor; needed: 1.00 GiB short in train_actor without it  train.offload=true
)");
}

TEST_F(Toy, TheTableSaysWhatBecameOfEveryConfiguration) {
  Plan found = plan(13 * kGiB, 0, 2);
  found.evaluated = 0;
  found.seconds = 0.25;
  found.space = 30;
  Proof& proof = found.proof.emplace();
  proof.space = 10;
  proof.evaluated = 10;
  proof.refused = proof.winner = 1;
  proof.too_large = proof.slower = 4;
  EXPECT_THAT(
      writers::plan_table(found, 13 * kGiB),
      ::testing::StartsWith(
          "10 configurations decided in 0.25 s\n"
          "All 10 configurations are decided: 1 refused by the framework, 4 do not fit by the closed form, 4 are no "
          "faster than the best where they fit (10 run, 0 simulated). Knobs that only the simulator tells apart stay as "
          "they are: 30 with them.\n"
          "By this model nothing in this space is faster than the best below.\n"));
}

// Nothing but what is left: no list, and the cause.
TEST_F(Toy, TheTableSaysWhyConfigurationsAreUndecided) {
  Plan found = plan(13 * kGiB, 0, 2);
  found.evaluated = 0;
  found.seconds = 0.25;
  Proof& proof = found.proof.emplace();
  proof.space = proof.undecided = 10;
  EXPECT_THAT(writers::plan_table(found, 13 * kGiB),
              HasSubstr("10 of 10 configurations are left undecided (0 run, 0 simulated).\n"
                        "Undecided, since as many were run as a search may run.\n"));
  proof.cache_decides = true;
  EXPECT_THAT(writers::plan_table(found, 13 * kGiB),
              HasSubstr("Undecided, since cached memory that other phases leave decides whether some fit.\n"));
}

TEST_F(Toy, JsonFollowsItsSchema) {
  const Plan found = plan(14 * kGiB);
  const auto value = nlohmann::json::parse(writers::plan_json(found, Report{}));
  EXPECT_EQ(test::schema_violation(nlohmann::json::parse(writers::report_schema()), value), "");
  EXPECT_EQ(value["choices"].size(), 5u);
  EXPECT_EQ(value["search"]["feasible"], 6);
}

TEST_F(Toy, SingleChangesComeCheapestFirst) {
  const search::Setup setup = test::toy_setup(read, 13 * kGiB);
  const std::vector<Change> changes = single_changes(setup, space(), test::toy_executor());
  ASSERT_EQ(changes.size(), 5u);
  EXPECT_EQ(changes[0].choices[0], (Choice{"offload", "true"}));
  EXPECT_EQ(changes[1].choices[0], (Choice{"micro_batch", "2"}));
  EXPECT_FALSE(changes[3].outcome.fits);
}

/// Only what the exact executor says fits is kept; none at all gives the closest.
TEST_F(Toy, ChangesAreConfirmedUntilEnoughFit) {
  const search::Setup setup = test::toy_setup(read, 13 * kGiB);
  const Executor toy = test::toy_executor();
  const std::vector<Change> quick = single_changes(setup, space(), toy);
  int runs = 0;
  const Executor counted = [&](const Job& job, const Hardware& hardware) {
    ++runs;
    return toy(job, hardware);
  };
  const std::vector<Change> two = confirmed(setup, quick, 2, counted);
  EXPECT_EQ(runs, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].choices, quick[0].choices);
  const std::vector<Change> all = confirmed(setup, quick, 100, counted);
  EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](const Change& c) { return c.outcome.fits; }));
  EXPECT_LT(all.size(), quick.size());
  const search::Setup tight = test::toy_setup(read, kGiB);
  const std::vector<Change> closest = confirmed(tight, single_changes(tight, space(), toy), 3, toy);
  EXPECT_EQ(closest.size(), 3u);
  EXPECT_FALSE(closest[0].outcome.fits);
}

/// 14 GiB now, 6 less with offload, 3 less with a micro-batch of 1: only both fit 6 GiB.
TEST_F(Toy, PairsFitWhereNoSingleChangeDoes) {
  const search::Setup setup = test::toy_setup(read, 6 * kGiB);
  const Executor toy = test::toy_executor();
  const std::vector<Change> singles = single_changes(setup, space(), toy);
  EXPECT_FALSE(singles[0].outcome.fits);
  const std::vector<Change> pairs = confirmed(setup, pairs_of(setup, space(), toy, singles), 8, toy);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_TRUE(pairs[0].outcome.fits);
  EXPECT_EQ(pairs[0].choices, (std::vector<Choice>{{"micro_batch", "2"}, {"offload", "true"}}));  // the faster one
  EXPECT_EQ(pairs[0].settings.size(), 2u);
}

TEST_F(Toy, TechniquesSayWhatTheySaveAndCost) {
  const search::Setup setup = test::toy_setup(read, 13 * kGiB);
  const Executor toy = test::toy_executor();
  const Outcome now = outcome_of(evaluate(setup, {}, toy).value());
  const std::vector<Technique> found = techniques(space(), single_changes(setup, space(), toy), now);
  ASSERT_EQ(found.size(), 2u);  // the micro-batch by its most frugal value
  EXPECT_EQ(found[0].name, "offload");
  EXPECT_EQ(found[0].saved, (std::vector<std::pair<std::string, Bytes>>{{"train_actor", 6 * kGiB}}));
  EXPECT_DOUBLE_EQ(found[0].seconds, 2);
  EXPECT_EQ(found[1].change.choices[0], (Choice{"micro_batch", "1"}));
  EXPECT_EQ(found[1].saved[0].second, 3 * kGiB);
  EXPECT_DOUBLE_EQ(found[1].seconds, 6);
}

/// A run that stops shows its card's end: what it needs is what a sum says that knows no end.
TEST(Shortfall, OfARunThatStopsIsTheQuickOnes) {
  Outcome stops, needs;
  stops.valid = stops.breaks = needs.valid = true;
  stops.spare = -kGiB;
  needs.spare = -20 * kGiB;
  EXPECT_EQ(with_shortfall(stops, needs).spare, -20 * kGiB);
  stops.breaks = false;
  EXPECT_EQ(with_shortfall(stops, needs).spare, -kGiB);
}

/// What comes of a value of the toy's micro_batch.
TryValue trying(const search::Setup& setup, Bytes extra = 0, int* runs = nullptr) {
  return [&setup, extra, runs](const std::string& value) {
    if (runs != nullptr) ++*runs;
    const Result<Report> report =
        evaluate(setup, std::array{Choice{"micro_batch", value}}, test::toy_executor(extra));
    return report ? outcome_of(*report) : Outcome{};
  };
}

TEST_F(Toy, SolveIsExactToOneStepOnBothSides) {
  const Knob micro_batch = test::toy_framework().knobs(read)[0];
  const search::Setup setup = test::toy_setup(read, 23 * kGiB);
  int runs = 0;
  const Solution largest =
      solve("micro_batch", micro_batch.values, false, trying(setup), trying(setup, 0, &runs)).value();
  EXPECT_EQ(largest.fits->value, "13");
  EXPECT_TRUE(largest.fits->outcome.fits);
  ASSERT_TRUE(largest.beyond.has_value());
  EXPECT_EQ(largest.beyond->value, "14");
  EXPECT_FALSE(largest.beyond->outcome.fits);
  EXPECT_EQ(largest.beyond->outcome.spare, -kGiB);
  EXPECT_LE(runs, 5);  // memory is even in the value: no halving of all between 8 and 32
  // The exact run takes more than the quick one says.
  EXPECT_EQ(solve("micro_batch", micro_batch.values, false, trying(setup), trying(setup, 2 * kGiB)).value().fits->value,
            "11");
  EXPECT_EQ(solve("micro_batch", micro_batch.values, true, trying(setup), trying(setup)).value().fits->value, "1");
  const search::Setup tight = test::toy_setup(read, kGiB);
  const Solution none = solve("micro_batch", micro_batch.values, false, trying(tight), trying(tight)).value();
  EXPECT_FALSE(none.fits.has_value());
  EXPECT_EQ(none.beyond->value, "1");
  EXPECT_EQ(none.beyond->outcome.spare, -10 * kGiB);
  EXPECT_EQ(none.beyond->outcome.limiting_phase, "train_actor");
}

TEST_F(Toy, ManyThreadsGiveTheSameOrder) {
  const search::Setup setup = test::toy_setup(read, 14 * kGiB);
  const Space all = space();
  const Executor executor = test::toy_executor();
  std::vector<Point> points;
  for (int i = 0; i < 200; ++i)
    points.push_back({static_cast<std::uint16_t>(i % 5), static_cast<std::uint16_t>(i % 2)});
  const std::vector<Outcome> many = Evaluator(setup, all, executor)(points);
  const std::vector<Outcome> one = Evaluator(setup, all, executor, 1)(points);
  for (std::size_t i = 0; i < points.size(); ++i) EXPECT_EQ(many[i].seconds, one[i].seconds);
}

}  // namespace
}  // namespace headroom::search

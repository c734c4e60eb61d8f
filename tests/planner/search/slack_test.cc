#include "planner/search/slack.h"

#include <gtest/gtest.h>

namespace headroom::search {
namespace {

Outcome outcome(Bytes train, Bytes sync) {
  Outcome out;
  out.valid = true;
  out.phases = {{"train_actor", train}, {"weight_sync", sync}};
  out.spare = std::min(train, sync);
  out.fits = out.spare >= 0;
  out.limiting_phase = train < sync ? "train_actor" : "weight_sync";
  return out;
}

TEST(Slack, KnowsNothingAtFirst) {
  EXPECT_EQ(Slack().expected({0, 0}, outcome(5, 3)).spare, 3);
}

TEST(Slack, ExpectsInEachPhaseWhatTheMostSimilarRunTook) {
  Slack slack;
  slack.learn({0, 0, 0}, outcome(20, 20), outcome(10, 19));
  slack.learn({1, 1, 1}, outcome(20, 20), outcome(18, 18));
  const Outcome near_first = slack.expected({0, 0, 1}, outcome(9, 8));
  EXPECT_EQ(near_first.spare, -1);  // 9 − 10
  EXPECT_FALSE(near_first.fits);
  EXPECT_EQ(near_first.limiting_phase, "train_actor");
  const Outcome near_second = slack.expected({0, 1, 1}, outcome(9, 8));
  EXPECT_EQ(near_second.spare, 6);  // 8 − 2
  EXPECT_EQ(near_second.limiting_phase, "weight_sync");
}

TEST(Slack, TakesTheMostOfRunsEquallySimilar) {
  Slack slack;
  slack.learn({0, 1}, outcome(20, 20), outcome(12, 20));
  slack.learn({1, 0}, outcome(20, 20), outcome(17, 20));
  EXPECT_EQ(slack.expected({0, 0}, outcome(20, 20)).spare, 12);
}

TEST(Slack, NeverPromisesMoreThanTheQuickOutcome) {
  Slack slack;
  slack.learn({0}, outcome(5, 5), outcome(9, 9));
  EXPECT_EQ(slack.expected({0}, outcome(5, 5)).spare, 5);
  Outcome broken = outcome(5, 5);
  broken.fits = false;  // an engine does not start
  EXPECT_FALSE(slack.expected({0}, broken).fits);
}

TEST(Slack, AKnownConfigurationIsExpectedAsItRan) {
  Slack slack;
  slack.learn({0}, outcome(5, 7), outcome(-2, 6));
  EXPECT_EQ(slack.expected({0}, outcome(5, 7)).spare, -2);
}

}  // namespace
}  // namespace headroom::search

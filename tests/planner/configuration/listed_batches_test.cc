#include "planner/configuration/listed_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/job/actions.h"

namespace headroom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Job job() {
  Job out;
  out.step = {make_phase(PhaseKind::actor_logprob, {role_action(Verb::forward, "actor")}),
              make_phase(PhaseKind::train_actor,
                         {parts_action(Verb::load, "actor", kWeights), role_action(Verb::train, "actor")}),
              make_phase(PhaseKind::weight_sync, {engine_action(Verb::sync_weights, "rollout", "actor")})};
  return out;
}

Result<std::vector<ListedBatches>> read(const std::string& text) {
  return listed_batches(parse_document(text, "run.json").value(), job(), "run.json");
}

TEST(ListedBatches, AreOfTheRoleThatRunsThePhase) {
  const std::vector<ListedBatches> found = read(R"({"phases": [
      {"step": 0, "phase": "actor_logprob", "micro_batches": [[7, 9], [8]]},
      {"step": 0, "phase": "weight_sync", "micro_batches": []},
      {"step": 1, "phase": "train_actor", "micro_batches": [[16]]},
      {"step": 1, "phase": "unknown", "micro_batches": [[1]]}]})")
                                               .value();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].role, "actor");
  EXPECT_FALSE(found[0].training);
  EXPECT_THAT(found[0].micro_batches, ElementsAre(ElementsAre(7, 9), ElementsAre(8)));
  EXPECT_EQ(found[1].step, 1);
  EXPECT_TRUE(found[1].training);
}

TEST(ListedBatches, AreCutFromARanksSequences) {
  Job job = ::headroom::job();
  job.pools.emplace_back();
  job.batch = {.prompts = 6, .mini_batch = 3, .prompt_length = 50, .response_length = 50};
  Role& actor = job.roles.emplace_back();
  actor.name = "actor";
  actor.forward.sequences = 4;
  actor.train.tokens = 100;
  const auto cut = [&](const std::string& text) {
    return listed_batches(parse_document(text, "run.yaml").value(), job, "run.yaml");
  };
  const std::vector<ListedBatches> found = cut("sequences: [[60, 30, 50, 10, 20, 90]]").value();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].micro_batches, ElementsAre(ElementsAre(60, 30, 50, 10), ElementsAre(20, 90)));
  // Two mini-batches of 140 and 120 tokens, in two micro-batches each.
  EXPECT_THAT(found[1].micro_batches, ElementsAre(ElementsAre(30, 50), ElementsAre(60), ElementsAre(90),
                                                  ElementsAre(10, 20)));
  EXPECT_THAT(cut("sequences: [[60, 30]]").error().text(),
              HasSubstr("run.yaml:1: sequences[0]: expected the 6 sequences that one rank has of a step, found 2"));
}

TEST(ListedBatches, SayWhatIsNone) {
  EXPECT_TRUE(lists_batches(parse_document(R"({"phases": [{"micro_batches": []}]})", "a").value()));
  EXPECT_FALSE(lists_batches(parse_document(R"({"phases": [{"phase": "init"}], "mean": 3})", "a").value()));
  EXPECT_THAT(read(R"({"phases": [{"step": 0, "phase": "train_actor", "micro_batches": [[0]]}]})").error().text(),
              HasSubstr("run.json:1: phases[0].micro_batches[0]: expected a sequence's tokens, found 0"));
  EXPECT_THAT(read(R"({"phases": [{"phase": "train_actor", "micro_batches": [[5]]}]})").error().text(),
              HasSubstr("phases[0].step: expected a step's number, from 0, found none"));
  EXPECT_THAT(read(R"({"phases": [{"step": 0, "phase": "train_actor", "micro_batches": [[]]}]})").error().text(),
              HasSubstr("expected token lengths of its sequences"));
}

}  // namespace
}  // namespace headroom

#include "simulator/job/residency.h"

#include <gmock/gmock.h>

#include "simulator/job/actions.h"
#include "tests/simulator/job/small_job.h"

namespace headroom {
namespace {

using testing::HasSubstr;

Action moving(Verb verb, unsigned parts) {
  Action action = role_action(verb, "actor");
  action.parts = parts;
  return action;
}

/// What is said of a step that runs `actions` on the actor.
std::string complaint(std::vector<Action> actions) {
  Job job = test::small_job();
  PhaseSpec phase = make_phase(PhaseKind::train_actor);
  phase.actions = std::move(actions);
  job.step = {phase};
  const Status status = check_residency(job);
  return status ? "" : status.error().text();
}

TEST(Residency, WhatIsOffloadedHasToBeLoadedFirst) {
  const Action train = role_action(Verb::train, "actor");
  EXPECT_EQ(complaint({train}), "");
  EXPECT_EQ(complaint({train, moving(Verb::offload, kWeights), moving(Verb::load, kWeights)}), "");
  EXPECT_THAT(complaint({moving(Verb::offload, kWeights), train}),
              HasSubstr("step.train_actor.train: expected the weights of role actor"));
  EXPECT_THAT(complaint({moving(Verb::release, kOptimizer), train}), HasSubstr("optimizer states"));
  EXPECT_EQ(complaint({moving(Verb::offload, kOptimizer), role_action(Verb::forward, "actor")}), "");
  EXPECT_EQ(complaint({moving(Verb::offload, kGradients), train}), "");
}

TEST(Residency, TheNextStepFindsWhatTheLastOneLeft) {
  EXPECT_THAT(complaint({role_action(Verb::train, "actor"), moving(Verb::offload, kWeights)}),
              HasSubstr("load them first"));
  EXPECT_EQ(complaint({moving(Verb::load, kWeights), role_action(Verb::train, "actor"),
                       moving(Verb::offload, kWeights)}),
            "");
}

}  // namespace
}  // namespace headroom

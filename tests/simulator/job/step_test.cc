#include "simulator/job/step.h"

#include <gtest/gtest.h>

#include <string>

namespace headroom {
namespace {

std::string steps_of(When when, int steps) {
  PhaseSpec phase;
  phase.when = when;
  std::string out;
  for (int step = 0; step < steps; ++step) out += runs_in(phase, step, steps) ? 'x' : '.';
  return out;
}

TEST(Step, RunsInEachNthStepFromTheFirstAllowed) {
  EXPECT_EQ(steps_of({.every = 1, .from = 0}, 4), "xxxx");
  EXPECT_EQ(steps_of({.every = 2, .from = 0}, 6), ".x.x.x");
  EXPECT_EQ(steps_of({.every = 1, .from = 2}, 4), "..xx");
}

TEST(Step, ShowsARarePhaseOnceInTheLastStep) {
  EXPECT_EQ(steps_of({.every = 20, .from = 0}, 3), "..x");
  EXPECT_EQ(steps_of({.every = 2, .from = 0}, 3), ".x.");
  EXPECT_EQ(steps_of({.every = 1, .from = 50}, 3), "..x");
}

}  // namespace
}  // namespace headroom

#include "simulator/device/outside.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "models/document/document.h"
#include "simulator/hardware/library.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

/// What a recorded process that had its card alone held outside its allocator at the end of each phase.
std::map<std::string, Bytes> first_step(const char* name) {
  const auto recording = read_document(test::data(name).string());
  std::map<std::string, Bytes> out;
  for (const Document& phase : recording->find("phases")->items())
    if (phase.find("step")->as_int() <= 0)
      out[phase.find("phase")->text()] =
          *phase.find("device_used_end")->as_int() - *phase.find("reserved_end")->as_int();
  return out;
}

Action action(Verb verb) {
  Action out;
  out.verb = verb;
  return out;
}

void expect_near(Bytes predicted, Bytes recorded) {
  EXPECT_LE(std::abs(predicted - recorded), 10 * kMiB) << predicted << " against " << recorded;
}

TEST(OutsideGrowth, FollowsARecordedPpoLoop) {
  OutsideGrowth outside(*find_hardware("h200"), 0, 1);
  const auto recorded = first_step("rlhf/opt13-ppo-none.json");
  outside.begin(action(Verb::build));
  expect_near(outside.now().total(), recorded.at("init"));
  outside.begin(action(Verb::generate));
  expect_near(outside.now().total(), recorded.at("generate"));
  outside.begin(action(Verb::forward));
  expect_near(outside.now().total(), recorded.at("actor_logprob"));
  outside.begin(action(Verb::train));
  expect_near(outside.now().total(), recorded.at("train_actor"));
  const Bytes all = outside.now().total();
  outside.begin(action(Verb::generate));
  EXPECT_EQ(outside.now().total(), all) << "nothing is taken twice";
}

TEST(OutsideGrowth, FollowsRecordedShardedLoops) {
  for (const char* name : {"rlhf/fsdp-q05-grpo.json", "rlhf/fsdp-ll1b-zero2.json"}) {
    OutsideGrowth outside(*find_hardware("h200"), 1, 2);
    const auto recorded = first_step(name);
    outside.begin(action(Verb::build));
    expect_near(outside.now().total(), recorded.at("init"));
    outside.begin(action(Verb::forward));
    expect_near(outside.now().total(), recorded.at("actor_logprob"));
    outside.begin(action(Verb::train));
    expect_near(outside.now().total(), recorded.at("train_actor"));
  }
}

}  // namespace
}  // namespace headroom

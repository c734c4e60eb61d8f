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
  if (verb == Verb::generate) out.engine = "rollout";
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
    Action responses = action(Verb::generate);
    responses.engine.clear();
    outside.begin(responses);
    expect_near(outside.now().total(), recorded.at("generate"));
    outside.begin(action(Verb::forward));
    expect_near(outside.now().total(), recorded.at("actor_logprob"));
    outside.begin(action(Verb::train));
    expect_near(outside.now().total(), recorded.at("train_actor"));
  }
}

/// A process that runs one role laid out so.
Peers peers(const Parallel& parallel, std::int64_t gpus, std::int64_t rank, bool heads = false) {
  Job job;
  Role& role = job.roles.emplace_back();
  role.name = "actor";
  role.parallel = parallel;
  role.megatron.context_all_to_all = heads;
  Process process;
  process.roles = {"actor"};
  return peers_of(job, process, gpus, rank);
}

TEST(PeersOf, AreWhomARankSendsTo) {
  EXPECT_EQ(peers({}, 8, 0), (Peers{}));
  EXPECT_EQ(peers({.tensor = 4}, 8, 0), (Peers{})) << "tensor groups use rings";
  EXPECT_EQ(peers({.ulysses = 4}, 8, 5), (Peers{3, 3}));
  EXPECT_EQ(peers({.context = 4}, 8, 5), (Peers{1, 1})) << "a ring of contexts";
  EXPECT_EQ(peers({.context = 4}, 8, 5, true), (Peers{3, 3}));
  EXPECT_EQ(peers({.expert = 8}, 8, 0), (Peers{7, 7}));
  for (const auto& [rank, neighbours] : {std::pair{0, 1}, {2, 2}, {5, 2}, {7, 1}})
    EXPECT_EQ(peers({.pipeline = 4}, 8, rank), (Peers{neighbours, neighbours})) << rank;
}

// Two H200 under FSDP2 with sequence parallelism took 446 MiB more from the first forward on.
TEST(OutsideGrowth, ConnectsPeersWithTheFirstForward) {
  const Hardware hardware = *find_hardware("h200");
  OutsideGrowth alone(hardware, 2, 8), exchanging(hardware, 2, 8, {.send = 1, .receive = 1});
  const auto more = [&] { return exchanging.now().total() - alone.now().total(); };
  for (const Verb verb : {Verb::build, Verb::forward, Verb::train}) {
    alone.begin(action(verb));
    exchanging.begin(action(verb));
    EXPECT_EQ(more(), verb == Verb::build ? 0 : 446 * kMiB);
  }
}

}  // namespace
}  // namespace headroom

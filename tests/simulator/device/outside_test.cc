#include "simulator/device/outside.h"

#include <gmock/gmock.h>
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
  OutsideGrowth outside(*find_hardware("h200"), 0, {1});
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
    OutsideGrowth outside(*find_hardware("h200"), 1, {2});
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
  OutsideGrowth alone(hardware, 2, {8}), exchanging(hardware, 2, {8}, {.send = 1, .receive = 1});
  const auto more = [&] { return exchanging.now().total() - alone.now().total(); };
  for (const Verb verb : {Verb::build, Verb::forward, Verb::train}) {
    alone.begin(action(verb));
    exchanging.begin(action(verb));
    EXPECT_EQ(more(), verb == Verb::build ? 0 : 446 * kMiB);
  }
}

// --- Megatron's groups, as two H200 had them between the phases of recorded runs (NVLink SHARP off)

Job megatron(const Parallel& parallel, bool tied) {
  auto model = std::make_shared<Architecture>();
  model->decoder.tied_embeddings = tied;
  Job job;
  Role role;
  role.name = "actor";
  role.model = std::move(model);
  role.trained = true;
  role.sharding.kind = ShardingKind::megatron;
  role.parallel = parallel;
  job.roles = {role};
  return job;
}

/// MiB that each action adds to the communicators.
std::vector<Bytes> growth(const Parallel& parallel, std::int64_t gpus, std::int64_t rank, bool tied = true) {
  Process process;
  process.roles = {"actor"};
  OutsideGrowth outside(*find_hardware("h200"), megatron_groups(megatron(parallel, tied), process, gpus, rank));
  std::vector<Bytes> out;
  Bytes before = 0;
  for (const Verb verb : {Verb::build, Verb::build_optimizer, Verb::forward, Verb::train}) {
    outside.begin(action(verb));
    out.push_back((outside.now().communicators - before) / kMiB);
    before = outside.now().communicators;
  }
  return out;
}

TEST(MegatronGroups, OfOneRankMakeCommunicatorsToo) {
  EXPECT_THAT(growth({}, 1, 0), testing::ElementsAre(0, 172 + 390, 390, 2 * 390));
}

TEST(MegatronGroups, GrowWithTheActionThatUsesThem) {
  // Data parallel; tensor parallel; the first and the last of two stages.
  const Bytes pair = 486, lone = 390, once = 172 + 186, p2p = 62 + 6 + 32 * 6;
  EXPECT_THAT(growth({}, 2, 0), testing::ElementsAre(0, once + pair, lone, 2 * pair));
  EXPECT_THAT(growth({.tensor = 2}, 2, 0), testing::ElementsAre(0, once + pair, pair, lone + pair));
  EXPECT_THAT(growth({.pipeline = 2}, 2, 0),
              testing::ElementsAre(once + pair, pair, p2p + 64, 320 + lone + pair));
  EXPECT_THAT(growth({.pipeline = 2}, 2, 1),
              testing::ElementsAre(once + pair, pair, lone + p2p + 320, 64 + lone + pair));
  EXPECT_EQ(growth({.pipeline = 2}, 2, 0, false).front(), 0) << "untied ends share nothing";
}

}  // namespace
}  // namespace headroom

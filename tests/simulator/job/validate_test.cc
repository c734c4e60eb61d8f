#include <gmock/gmock.h>

#include "simulator/job/job.h"
#include "simulator/job/names.h"
#include "tests/simulator/job/small_job.h"

namespace headroom {
namespace {

using testing::HasSubstr;

/// What validate_job says about a small job after `change`; empty when it is accepted.
template <typename Change>
std::string complaint(Change change) {
  Job job = test::small_job();
  change(job);
  const Status status = validate_job(job);
  return status ? "" : status.error().text();
}

TEST(ValidateJob, AcceptsASoundJob) {
  EXPECT_EQ(complaint([](Job&) {}), "");
}

TEST(ValidateJob, NamesTheField) {
  EXPECT_THAT(complaint([](Job& j) { j.pools[0].gpus_per_node = 0; }), HasSubstr("pools.main.gpus_per_node"));
  EXPECT_THAT(complaint([](Job& j) { j.pools.clear(); }), HasSubstr("pools: expected at least one"));
  EXPECT_THAT(complaint([](Job& j) { j.batch.prompts = -4; }), HasSubstr("batch.prompts"));
  EXPECT_THAT(complaint([](Job& j) { j.batch.response_length = std::int64_t{1} << 62; }),
              HasSubstr("batch.response_length"));
  EXPECT_THAT(complaint([](Job& j) { j.batch.mini_batch = 4096; }), HasSubstr("2048 sequences"));
  EXPECT_THAT(complaint([](Job& j) { j.engines[0].utilization = 1.5; }),
              HasSubstr("engines.rollout.utilization"));
  EXPECT_THAT(complaint([](Job& j) { j.roles[0].model = nullptr; }), HasSubstr("roles.actor.model"));
}

TEST(ValidateJob, WantsSequencesWithinALearnedPositionTable) {
  EXPECT_THAT(complaint([](Job& j) {
                auto model = std::make_shared<Architecture>(*j.roles[0].model);
                model->decoder.position = PositionKind::learned;
                model->decoder.max_positions = j.batch.sequence_length() - 1;
                j.roles[0].model = model;
              }),
              HasSubstr("positions of roles.actor"));
}

TEST(ValidateJob, WantsHeadsDivisible) {
  EXPECT_THAT(complaint([](Job& j) { j.engines[0].tensor = 3; }), HasSubstr("16 attention heads"));
  EXPECT_EQ(complaint([](Job& j) { j.engines[0].tensor = 8; }), "");  // 4 key/value heads are replicated
  EXPECT_THAT(complaint([](Job& j) { j.roles[0].parallel.ulysses = 5; }),
              HasSubstr("roles.actor.parallel.ulysses"));
}

TEST(ValidateJob, WantsGroupsThatFillThePool) {
  EXPECT_THAT(complaint([](Job& j) { j.roles[0].parallel.tensor = 16; }), HasSubstr("divides the 8 GPUs"));
  EXPECT_THAT(complaint([](Job& j) { j.roles[0].sharding.group = 3; }),
              HasSubstr("roles.actor.sharding.group"));
  EXPECT_THAT(complaint([](Job& j) { j.processes[1].pool = "elsewhere"; }),
              HasSubstr("no pool is named elsewhere"));
}

TEST(ValidateJob, WantsPhasesOfKnownRoles) {
  PhaseSpec phase;
  phase.kind = PhaseKind::train_critic;
  phase.actions = {Action{.verb = Verb::train, .role = "critic", .engine = ""}};
  EXPECT_THAT(complaint([&](Job& j) { j.step = {phase}; }),
              HasSubstr("step.train_critic.train: no role is named critic"));
}

TEST(Names, CoverEveryValueOnce) {
  EXPECT_EQ(enum_name(Verb::expandable_off), "expandable_off");
  EXPECT_EQ(enum_from<PhaseKind>("critic_values"), PhaseKind::critic_values);
  EXPECT_EQ(enum_from<ShardingKind>("fsdp3"), std::nullopt);
  int at = 0;
  for (const auto& [value, text] : enum_names<Verb>()) EXPECT_EQ(static_cast<int>(value), at++) << text;
}

}  // namespace
}  // namespace headroom

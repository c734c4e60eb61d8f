#include <gmock/gmock.h>

#include <memory>

#include "simulator/job/actions.h"
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

TEST(ValidateJob, WantsAReferenceOfTheSameProcess) {
  const auto with_reference = [](Job& job, bool same, bool trained) {
    Role reference = job.roles[0];
    reference.name = "ref";
    reference.trained = trained;
    job.roles.push_back(reference);
    job.roles[0].loss.reference = "ref";
    if (same) return job.processes[0].roles.push_back("ref");
    Process other;
    other.name = "other";
    other.roles = {"ref"};
    job.processes.push_back(other);
  };
  const std::string expected = "roles.actor.loss.reference: expected an untrained role of the same process";
  EXPECT_EQ(complaint([&](Job& j) { with_reference(j, true, false); }), "");
  EXPECT_THAT(complaint([&](Job& j) { with_reference(j, true, true); }), HasSubstr(expected));
  EXPECT_THAT(complaint([&](Job& j) { with_reference(j, false, false); }), HasSubstr(expected));
  EXPECT_THAT(complaint([](Job& j) { j.roles[0].loss.reference = "judge"; }), HasSubstr("found judge"));
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
  phase.actions = {role_action(Verb::train, "critic")};
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

/// torch.nn.attention.sdpa_kernel: PyTorch has no stand-in for a kernel that does not take the operands.
TEST(HeldAttention, TakesWhatPyTorchLetsItTake) {
  const auto status = [](AttentionKernel kernel, DType compute, std::int64_t head, std::int64_t kv_heads) {
    Job job = test::small_job();
    auto model = std::make_shared<Architecture>(*job.roles[0].model);
    model->decoder.groups[0].layer.attention.head_dim = head;
    model->decoder.groups[0].layer.attention.kv_heads = kv_heads;
    job.roles[0].model = model;
    job.roles[0].precision.compute = compute;
    job.roles[0].attention_kernel = kernel;
    return validate_job(job);
  };
  using enum AttentionKernel;
  EXPECT_TRUE(status(cudnn, DType::bf16, 64, 4));
  EXPECT_TRUE(status(flash, DType::bf16, 256, 4));
  EXPECT_TRUE(status(efficient, DType::fp32, 512, 16));
  EXPECT_TRUE(status(math, DType::fp32, 512, 4));
  for (const Status& refused : {status(cudnn, DType::fp32, 64, 16), status(flash, DType::fp32, 64, 16),
                                status(flash, DType::bf16, 512, 16), status(cudnn, DType::bf16, 512, 16),
                                status(cudnn, DType::bf16, 100, 16), status(efficient, DType::bf16, 64, 4)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().key, "sdpa_kernel");
  }
}

// Weights in four bits lie frozen under adapters, in a model that no runtime shards.
TEST(FrozenWeights, AreFourBitsUnderAdaptersAndUnsharded) {
  Job job = test::small_job();
  Role& role = job.roles[0];
  role.sharding.kind = ShardingKind::none;
  role.precision.frozen = DType::nf4;
  ASSERT_FALSE(validate_job(job));
  EXPECT_THAT(validate_job(job).error().key, testing::HasSubstr("precision.frozen"));
  role.lora = LoraSpec{.rank = 8, .targets = {"all-linear"}};
  EXPECT_TRUE(validate_job(job)) << validate_job(job).error().text();
  role.precision.frozen = DType::int8;
  EXPECT_FALSE(validate_job(job));
  role.precision.frozen = DType::nf4;
  role.sharding.kind = ShardingKind::fsdp2;
  EXPECT_FALSE(validate_job(job));
}

}  // namespace
}  // namespace headroom

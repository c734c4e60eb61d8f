#include "planner/frameworks/verl/recording.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "models/document/document.h"
#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/support/data.h"

namespace headroom::verl {
namespace {

/// A recording states its own overrides, model, card and micro-batches.
TEST(Recording, IsReadAsTheRunThatItWas) {
  const std::string path = test::data("verl-recorded/w1-q05-fsdp2-dyn.json");
  const ReadJob read = read_job(std::array{path}, {}).value();
  EXPECT_EQ(read.job.framework, "verl");
  EXPECT_EQ(read.job.pools.front().gpus_per_node, 1);
  EXPECT_EQ(read.job.role("actor")->sharding.kind, ShardingKind::fsdp2);
  EXPECT_EQ(read.job.role("actor")->model->decoder.hidden, 896);
  EXPECT_EQ(read.job.versions.torch, "2.11.0");
  ASSERT_FALSE(read.job.lengths.listed.empty());
  EXPECT_EQ(read.job.lengths.listed.front().role, "actor");
  EXPECT_EQ(read.job.lengths.listed.front().micro_batches.front().front(), 272);
}

/// Ranks are made differently: what init and the first sync reserve is each rank's own.
TEST(Recording, FollowsTheRankThatWasRecorded) {
  for (const char* name : {"w2-q05-fsdp2.rank0", "w2-q05-fsdp2.rank1", "w2-untied-fsdp2.rank0",
                           "w2-untied-fsdp2.rank1", "w2-untied-fsdp1.rank1", "w2-q05-fsdp2-policy.rank0"}) {
    const std::string path = test::data(fmt::format("verl-recorded/{}.json", name));
    ReadJob read = read_job(std::array{path}, {}).value();
    EXPECT_EQ(read.job.rank, std::string_view(name).ends_with('1') ? 1 : 0);
    read.job.steps = 1;
    const Hardware h200 = find_hardware("h200").value();
    const Report report = simulate(read.job, h200, {}).value();
    const Document recorded = read_document(path).value();
    for (const Document& truth : recorded.find("phases")->items()) {
      if (truth.find("step")->as_int().value() >= 0) continue;
      for (const PhaseReport& phase : report.devices.front().phases)
        if (phase.step < 0 && phase.phase == truth.find("phase")->text()) {
          EXPECT_EQ(phase.processes.front().peak_reserved, truth.find("peak_reserved")->as_int().value())
              << name << " " << phase.phase;
        }
    }
  }
}

/// What the machine lacked counts too.
TEST(Recording, KnowsAMachineWithoutFlashAttn) {
  const std::string path = test::data("verl-recorded/w1-q05-fsdp2-noflash.json");
  const ReadJob read = read_job(std::array{path}, {}).value();
  EXPECT_EQ(read.job.role("actor")->loss.token_logprob, TokenLogprob::selective_log_softmax);
  EXPECT_FALSE(read.job.role("actor")->packed);
  EXPECT_FALSE(read.job.role("actor")->loss.entropy_compiled);
}

}  // namespace
}  // namespace headroom::verl

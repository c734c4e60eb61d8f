#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simulator/hardware/library.h"
#include "tests/support/data.h"
#include "tests/support/megatron_recording.h"

namespace headroom {
namespace {

using test::MegatronErrors;
using test::MegatronRecording;

const std::vector<MegatronRecording>& recordings() {
  static const auto all = test::megatron_recordings(test::data("megatron/recorded.json"));
  EXPECT_TRUE(all.has_value()) << (all ? "" : all.error().message);
  static const std::vector<MegatronRecording> none;
  return all ? *all : none;
}

std::vector<MegatronErrors> errors_of(const MegatronRecording& recording) {
  const auto errors = test::megatron_errors(recording);
  EXPECT_TRUE(errors.has_value()) << recording.name << (errors ? "" : errors.error().message);
  return errors.value_or(std::vector<MegatronErrors>{});
}

// --- All of them

TEST(MegatronRecorded, AllocatedIsExactInNearlyEveryPhaseOfEveryRank) {
  double within = 0, all = 0;
  for (const MegatronRecording& recording : recordings())
    for (const MegatronErrors& e : errors_of(recording)) {
      all += 1;
      within += std::abs(e.peak) <= 0.001 ? 1 : 0;
      EXPECT_LE(std::abs(e.peak), 0.005) << recording.name << " rank " << recording.rank << " " << e.phase;
      EXPECT_LE(std::abs(e.end), 0.005) << recording.name << " rank " << recording.rank << " " << e.phase;
    }
  EXPECT_GE(within, 0.95 * all);
  EXPECT_GE(all, 300);
}

/// Other models and settings, recorded after the program followed the first ones and not looked at since.
TEST(MegatronRecorded, AllocatedIsExactInRunsThatItWasNotMadeFrom) {
  const auto further = test::megatron_recordings(test::data("megatron/further.json"));
  ASSERT_TRUE(further.has_value()) << further.error().message;
  double within = 0, all = 0;
  for (const MegatronRecording& recording : *further)
    for (const MegatronErrors& e : errors_of(recording)) {
      all += 1;
      within += std::abs(e.peak) <= 0.001 ? 1 : 0;
      EXPECT_LE(std::abs(e.peak), 0.005) << recording.name << " rank " << recording.rank << " " << e.phase;
    }
  EXPECT_GE(within, 0.95 * all);
  EXPECT_GE(all, 190);
}

TEST(MegatronRecorded, ReservedIsNearWhereGradientsStayOnOneStream) {
  int rows = 0;
  for (const MegatronRecording& recording : recordings()) {
    if (!recording.current_stream) continue;
    // How far a virtual stage is behind its host is not recorded.
    const double tolerance = recording.job.roles.front().parallel.virtual_pipeline > 1 ? 0.022 : 0.02;
    for (const MegatronErrors& e : errors_of(recording)) {
      EXPECT_LE(std::abs(e.reserved), tolerance) << recording.name << " rank " << recording.rank << " " << e.phase;
      ++rows;
    }
  }
  EXPECT_GT(rows, 40);
}

// Hosts and cards were shared: docs/TIME.md has every row.
TEST(MegatronRecorded, SecondsAreNear) {
  const auto card = find_hardware("h200");
  ASSERT_TRUE(card);
  std::vector<double> errors;
  for (const MegatronRecording& recording : recordings()) {
    const auto rows = test::megatron_seconds(recording, *card);
    ASSERT_TRUE(rows) << recording.name << rows.error().message;
    for (const test::MegatronSeconds& row : *rows) errors.push_back(std::abs(row.predicted / row.measured - 1));
  }
  std::sort(errors.begin(), errors.end());
  ASSERT_GE(errors.size(), 100u);
  EXPECT_LE(errors[errors.size() / 2], 0.18);
  EXPECT_LE(errors[errors.size() * 9 / 10], 0.45);
}

TEST(MegatronRecorded, CommunicatorsOfEveryGroupAreCounted) {
  for (const MegatronRecording& recording : recordings()) {
    if (recording.exchange) continue;  // the recorder's own
    for (const MegatronErrors& e : errors_of(recording))
      EXPECT_LE(std::abs(e.outside), e.step < 0 ? 0.1 : 0.05)
          << recording.name << " rank " << recording.rank << " step " << e.step << " " << e.phase;
  }
}

// --- What each recording is there for: without its mechanism it is off by more than a hundredth

struct Mechanism {
  const char* what;
  std::vector<std::string> recordings;
  double tolerance = 0.001;
};

void PrintTo(const Mechanism& one, std::ostream* out) {
  *out << one.what;
}

class MegatronMechanism : public testing::TestWithParam<Mechanism> {};

TEST_P(MegatronMechanism, IsFollowed) {
  const Mechanism& mechanism = GetParam();
  for (const std::string& name : mechanism.recordings) {
    bool found = false;
    for (const MegatronRecording& recording : recordings()) {
      if (recording.name != name) continue;
      found = true;
      for (const MegatronErrors& e : errors_of(recording))
        EXPECT_LE(std::max(std::abs(e.peak), std::abs(e.end)), mechanism.tolerance)
            << name << " rank " << recording.rank << " step " << e.step << " " << e.phase;
    }
    EXPECT_TRUE(found) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Recorded, MegatronMechanism,
    testing::Values(
        Mechanism{"CopiesOfHalfGradientsStay", {"w1-l1b8-bf16grad", "w2-l1b8-dp2-bf16grad-overlap"}},
        Mechanism{"HybridOptimizerKeepsMastersOnTheGpu", {"w1-l1b8-cpuopt"}},
        Mechanism{"CompiledCrossEntropyMakesOneTensorMore", {"w1-l1b8-cefuse"}},
        Mechanism{"UnfusedActivationKeepsTheOffsetHalf", {"w1-l1b8-nofuse"}},
        Mechanism{"VirtualStagesAreWrappedOneByOne", {"w2-l1b8-pp2-vp2-m4", "w2-q15u8-pp2-vp2-m8-rl"}, 0.002},
        Mechanism{"VirtualStagesHoldWhatTheySend", {"w2-l1b8-pp2-vp2-m4", "w2-q15u8-pp2-vp2-m8-rl"}, 0.0005},
        Mechanism{"RanksOfADataParallelGroupDiffer",
                  {"w2-l1b8-dp2", "w2-l1b8-dp2-overlap", "w2-l1b-dp2-rl-full-offload", "w2-l1b8-cp2"},
                  0.0085},
        Mechanism{"OtherOptimizersFollowTheModelsOrder", {"w1-l1b8-nodist", "w2-l1b8-dp2-nodist"}},
        Mechanism{"ExpertsOnOneRankLieWithTheDenseWeights",
                  {"w1-moe", "w1-moe-rl-onestream", "w2-moe-tp2-etp2-sp", "w2-moe-tp2-etp2-sp-rl"},
                  0.0015},
        Mechanism{"RoutersHoldTheGraphOfRecomputedLayers", {"w2-moe-ep2-rl-full"}},
        Mechanism{"StagesHoldTheirLastHiddenStates",
                  {"w2-l1b-pp2-m4", "w2-l1b8-pp2-m4-rl", "w2-l1b-pp2-m8-rl-full"},
                  0.0001},
        Mechanism{"OwnLayersKeepTheFusedProjection", {"w1-l1b8", "w1-q15u8-rl-onestream", "w2-l1b8-tp2-sp"}},
        Mechanism{"OwnAttentionKeepsScoresAndSoftmax", {"w1-l1b8-local", "w2-q15-tp2-local-sp"}},
        Mechanism{
            "RecomputationDropsWhatItRepeats",
            {"w1-l1b8-full-uniform", "w1-l1b8-full-block", "w1-l1b8-sel-mlp", "w2-l1b8-pp2-m8-sel-core"}},
        Mechanism{"ListsOfTensorsMakeAdamsTemporaries", {"w1-l1b8-foreach"}},
        Mechanism{"FusedWeightGradientsAreNotCached", {"w1-l1b8-wfuse", "w2-l1b8-tp2-sp-wfuse"}}),
    [](const testing::TestParamInfo<Mechanism>& one) { return std::string(one.param.what); });

}  // namespace
}  // namespace headroom

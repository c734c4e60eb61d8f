#include "simulator/device/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using ::testing::HasSubstr;

Report one_phase(const std::string& phase, Bytes peak, Bytes host = 0) {
  PhaseReport row;
  row.phase = phase;
  row.peak_device = peak;
  row.peak_host = host;
  DeviceReport device;
  device.phases = {row};
  Report report;
  report.devices = {device};
  return report;
}

std::vector<std::string> codes(const Report& report) {
  std::vector<std::string> out;
  for (const Warning& warning : report.warnings) out.push_back(warning.code);
  return out;
}

TEST(Margins, TheBuiltInTableKeepsItsBounds) {
  const Bytes card = 80 * kGiB;
  for (const char* phase : {"init", "train_actor", "actor_logprob", "generate", "weight_sync", "unheard"}) {
    const Bytes margin = Margins::builtin().of(phase, false, card);
    EXPECT_GT(margin, 0) << phase;
    EXPECT_LE(margin, card * 5 / 100) << phase;
  }
  EXPECT_LE(Margins::builtin().of("train_actor", false, card), card * 3 / 100);
  EXPECT_GT(Margins::builtin().of("generate", false, card),
            Margins::builtin().of("train_actor", false, card));
  EXPECT_EQ(Margins::builtin().of("unheard", true, card), Margins::builtin().of("generate", false, card));
}

TEST(Margins, RefusesValuesBeyondTheBounds) {
  const auto read = [](const std::string& text) {
    return Margins::read(parse_document(text, "m.yaml").value(), "m.yaml");
  };
  EXPECT_TRUE(read("default: {fraction: 0.03, bytes: 1GiB}\nengine: {fraction: 0.05, bytes: 2GiB}"));
  EXPECT_FALSE(read("default: {fraction: 0.04, bytes: 1GiB}\nengine: {fraction: 0.05, bytes: 2GiB}"));
  EXPECT_FALSE(read("default: {fraction: 0.03, bytes: 1GiB}\nengine: {fraction: 0.05, bytes: 3GiB}"));
  EXPECT_FALSE(read("default: {fraction: 0.03, bytes: 1GiB}"));
  const auto wrong =
      read("default: {fraction: 0, bytes: 0B}\nengine: {fraction: 0, bytes: 0B}\nphases:\n  x: y");
  EXPECT_EQ(wrong.error().text(), "m.yaml:4: phases.x: expected engine or default, found y");
}

TEST(Judge, PeakAndMarginTogetherDecide) {
  Report report = one_phase("train_actor", 70 * kGiB);
  const Limits limits{
      .card = 80 * kGiB, .budget = 76 * kGiB, .pools = {}, .host_budget = 0, .margin = 6 * kGiB};
  judge(report, limits);
  EXPECT_TRUE(report.fits);
  EXPECT_THAT(codes(report), ::testing::ElementsAre("thin-margin"));
  report = one_phase("train_actor", 70 * kGiB + 1);
  judge(report, limits);
  EXPECT_FALSE(report.fits);
}

/// vLLM's default share of a card leaves no room for a margin of 3.5 % of it; what it mistakes it takes from its cache.
TEST(Judge, EnginesAloneKeepTheSizeOfTheMarginAlone) {
  Report report = one_phase("generate", 77 * kGiB);
  PhaseReport& phase = report.devices.front().phases.front();
  phase.at_peak_device[Component::engine_weights] = 8 * kGiB;
  const Limits limits{.card = 79 * kGiB, .budget = 79 * kGiB, .pools = {}, .host_budget = 0, .margin = {}};
  judge(report, limits);
  EXPECT_TRUE(report.fits);
  EXPECT_EQ(report.devices.front().phases.front().margin, Margins::builtin().of_engines_alone());
  phase.at_peak_device[Component::weights] = kGiB;
  judge(report, limits);
  EXPECT_FALSE(report.fits);
}

TEST(Judge, APoolHasItsOwnBudget) {
  Report report = one_phase("generate", 50 * kGiB);
  report.devices[0].pool = "rollout";
  Limits limits{.card = 80 * kGiB,
                .budget = 76 * kGiB,
                .pools = {{"rollout", 40 * kGiB}},
                .host_budget = 0,
                .margin = 0};
  judge(report, limits);
  EXPECT_FALSE(report.fits);
}

TEST(Judge, HostMemoryCountsWhenItHasABudget) {
  Report report = one_phase("init", kGiB, 900 * kGiB);
  Limits limits{.card = 80 * kGiB, .budget = 76 * kGiB, .pools = {}, .host_budget = 0, .margin = {}};
  judge(report, limits);
  EXPECT_TRUE(report.fits);
  EXPECT_THAT(codes(report), ::testing::ElementsAre("host-unchecked"));
  limits.host_budget = 800 * kGiB;
  report.warnings.clear();
  judge(report, limits);
  EXPECT_FALSE(report.fits);
  EXPECT_THAT(report.warnings[0].message, HasSubstr("reaches 900.00 GiB, 800.00 GiB are allowed"));
}

TEST(Judge, AProcessThatRunsOutDoesNotFit) {
  Report report = one_phase("generate", kGiB);
  report.devices[0].phases[0].processes.resize(1);
  report.devices[0].phases[0].processes[0].out_of_memory = "vLLM does not start";
  judge(report, {.card = 80 * kGiB, .budget = 76 * kGiB, .pools = {}, .host_budget = 0, .margin = {}});
  EXPECT_FALSE(report.fits);
}

TEST(Judge, WhatNoProgramModelsLeavesTheVerdictOpen) {
  Limits limits{.card = 80 * kGiB, .budget = 76 * kGiB, .pools = {}, .host_budget = 0, .margin = 0};
  Report report = one_phase("train_actor", 70 * kGiB);
  judge(report, limits);
  leave_undetermined(report, {});
  EXPECT_TRUE(report.fits);
  leave_undetermined(report, {"a.key=1"});
  EXPECT_FALSE(report.fits);
  EXPECT_THAT(undetermined(report), ::testing::ElementsAre("not modelled: a.key=1"));
  Report over = one_phase("train_actor", 77 * kGiB);
  judge(over, limits);
  leave_undetermined(over, {"a.key=1"});
  EXPECT_FALSE(over.fits);
  EXPECT_THAT(undetermined(over), ::testing::ElementsAre("not modelled: a.key=1")) << "it may need less";
}

}  // namespace
}  // namespace headroom

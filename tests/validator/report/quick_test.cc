#include "validator/quick.h"

#include <gtest/gtest.h>

#include "validator/comparison.h"

namespace headroom::gpu {
namespace {

constexpr Bytes kOutside = 600 * kMiB, kOthers = 3 * kMiB;

/// A phase that holds `bytes`, with `outside` beside it.
Report report(Bytes bytes, Bytes outside) {
  Report out;
  PhaseReport& phase = out.devices.emplace_back().phases.emplace_back();
  phase.phase = "train_actor";
  phase.peak_device = bytes + outside;
  ProcessPhase& process = phase.processes.emplace_back();
  process.process = "trainer";
  process.peak_allocated = bytes - kMiB;
  process.peak_reserved = bytes;
  process.outside = outside;
  return out;
}

Measured measured(Bytes predicted, Bytes really) {
  Measured out{.predicted = report(predicted, 800 * kMiB), .probe = {}};
  out.probe.report = report(really, 0);
  out.probe.used_by_others = kOthers;
  out.probe.outside = kOutside;
  out.probe.phases.push_back({.step = 0, .phase = "train_actor", .card_peak = really + kOutside + kOthers});
  return out;
}

// Segments are large: between 2 and 4 layers nothing is added, to 28 layers there is.
constexpr Bytes kFew = 20 * kMiB, kMore = 20 * kMiB, kAll = 140 * kMiB;

TEST(Extrapolate, OfAPerfectPredictionIsThePrediction) {
  const Probe probe =
      extrapolate(measured(kFew, kFew), measured(kMore, kMore), report(kAll, 800 * kMiB), 2, 4, 28);
  ASSERT_EQ(probe.phases.size(), 1u);
  EXPECT_EQ(probe.report.devices[0].phases[0].processes[0].peak_reserved, kAll);
  EXPECT_EQ(probe.report.devices[0].phases[0].processes[0].peak_allocated, kAll - kMiB);
  EXPECT_EQ(probe.phases[0].card_peak, kAll + kOutside + kOthers);
}

TEST(Extrapolate, CarriesWhatBothDepthsTookBeyondTheirPredictions) {
  const auto found = [](Bytes few, Bytes more) {
    const Probe probe = extrapolate(measured(kFew, kFew + few), measured(kMore, kMore + more),
                                    report(kAll, 800 * kMiB), 2, 4, 28);
    return probe.report.devices[0].phases[0].processes[0].peak_reserved - kAll;
  };
  EXPECT_EQ(found(2 * kMiB, 2 * kMiB), 2 * kMiB);
  EXPECT_EQ(found(-6 * kMiB, -4 * kMiB), -4 * kMiB);
  EXPECT_EQ(found(3 * kMiB, 6 * kMiB), 42 * kMiB) << "in each layer";
  EXPECT_EQ(found(-3 * kMiB, -6 * kMiB), -42 * kMiB);
  EXPECT_EQ(found(2 * kMiB, 22 * kMiB), 2 * kMiB);
  EXPECT_EQ(found(0, -8 * kMiB), 0) << "one depth's segments say nothing of another's";
  EXPECT_EQ(found(4 * kMiB, -8 * kMiB), 0);
}

TEST(Extrapolate, CountsTheCardWithWhatLiesOutsideAllocators) {
  const Probe probe = extrapolate(measured(kFew, kFew + kMiB), measured(kMore, kMore + 2 * kMiB),
                                  report(kAll, 800 * kMiB), 2, 4, 28);
  EXPECT_EQ(probe.phases[0].card_peak, kAll + 14 * kMiB + kOutside + kOthers)
      << "twice the layers, twice beyond: seven times the layers, seven times beyond";
}

// What lies outside allocators is no part of what a depth took less than its prediction.
TEST(Extrapolate, LooksAtTheCardWithoutWhatLiesOutsideAllocators) {
  const Probe probe = extrapolate(measured(kFew, kFew - kMiB), measured(kMore, kMore - 900 * kMiB),
                                  report(kAll, 800 * kMiB), 2, 4, 28);
  EXPECT_EQ(probe.phases[0].card_peak, kAll - kMiB + kOutside + kOthers);
}

// An engine's process holds everything that is predicted of it, what lies outside its allocator too.
TEST(Extrapolate, LeavesNeighboursAsTheyArePredicted) {
  const auto with_engine = [](Report report, Bytes predicted_outside) {
    PhaseReport& phase = report.devices[0].phases[0];
    phase.peak_device += kGiB + predicted_outside;
    ProcessPhase& engine = phase.processes.emplace_back();
    engine.process = "rollout";
    engine.peak_reserved = kGiB;
    engine.outside = predicted_outside;
    return report;
  };
  const auto found = [&](Bytes predicted, Bytes really) {
    Measured out = measured(predicted, really);
    out.predicted = with_engine(out.predicted, 2 * kGiB);
    out.probe.report = with_engine(out.probe.report, 2 * kGiB);
    out.probe.neighbours["rollout"] = kGiB / 2;
    out.probe.phases[0].card_peak += 3 * kGiB;
    return out;
  };
  const Probe probe = extrapolate(found(kFew, kFew), found(kMore, kMore - kGiB),
                                  with_engine(report(kAll, 800 * kMiB), 2 * kGiB), 4, 8, 28);
  EXPECT_EQ(probe.phases[0].card_peak, kAll + 3 * kGiB + kOutside + kOthers);
}

TEST(Extrapolate, DrawsSecondsAlongALineButNeverBelowWhatRan) {
  Measured few = measured(kFew, kFew), more = measured(kMore, kMore);
  few.probe.phases[0].seconds = 1;
  more.probe.phases[0].seconds = 2;
  EXPECT_DOUBLE_EQ(extrapolate(few, more, report(kAll, 0), 2, 4, 28).phases[0].seconds, 14);
  few.probe.phases[0].seconds = 5;  // the first run loads the libraries
  EXPECT_DOUBLE_EQ(extrapolate(few, more, report(kAll, 0), 2, 4, 28).phases[0].seconds, 2);
}

TEST(Extrapolate, LeavesOutPhasesThatOneSideLacks) {
  Measured few = measured(kFew, kFew);
  few.probe.report.devices[0].phases[0].phase = "another";
  EXPECT_TRUE(extrapolate(few, measured(kMore, kMore), report(kAll, 0), 2, 4, 28).phases.empty());
}

TEST(Extrapolate, KeepsAPhaseThatNothingPredictsForTheVerdict) {
  Report all = report(kAll, 800 * kMiB);
  all.devices[0].phases[0].phase = "another";
  const Probe probe = extrapolate(measured(kFew, kFew), measured(kMore, kMore), all, 2, 4, 28);
  const Validation v = compare(all, probe, {});
  EXPECT_EQ(v.unmatched, std::vector<std::string>{"step 0 train_actor"});
  EXPECT_EQ(v.unmeasured, std::vector<std::string>{"step 0 another"});
  EXPECT_EQ(v.beyond(1).size(), 2u);
}

TEST(Extrapolate, SaysHowFarEachDepthWasFromItsPrediction) {
  const Probe probe = extrapolate(measured(kFew, kFew + 100 * kMiB), measured(kMore, kMore - 100 * kMiB),
                                  report(kAll, 800 * kMiB), 2, 4, 28);
  ASSERT_EQ(probe.notes.size(), 1u);
  EXPECT_NE(probe.notes[0].find("2 and 4 layers were run, and were 13.89 % and 19.23 % from"),
            std::string::npos)
      << probe.notes[0];
}

TEST(WithLayers, CutsEveryGroupOfLayers) {
  Job job;
  Role& role = job.roles.emplace_back();
  Architecture model;
  model.decoder.layers = 10;
  model.decoder.groups.resize(2);
  model.decoder.groups[0].count = 3;
  model.decoder.groups[1].count = 7;
  role.model = std::make_shared<Architecture>(model);
  const Job cut = with_layers(job, 4);
  EXPECT_EQ(cut.roles[0].model->decoder.layers, 4);
  EXPECT_EQ(cut.roles[0].model->decoder.groups[0].count, 3);
  EXPECT_EQ(cut.roles[0].model->decoder.groups[1].count, 1);
  EXPECT_EQ(job.roles[0].model->decoder.layers, 10) << "the job itself keeps its layers";
}

}  // namespace
}  // namespace headroom::gpu

#include "simulator/phases/phase_rows.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

PhaseSpec phase(const std::string& name, bool reported = true, const std::string& within = {}) {
  PhaseSpec out;
  out.name = name;
  out.reported = reported;
  out.within = within;
  return out;
}

ProcessPhase process(const std::string& name, Bytes start, Bytes peak, Bytes end) {
  ProcessPhase out;
  out.process = name;
  out.allocated_start = out.reserved_start = start;
  out.peak_allocated = out.peak_reserved = out.peak_active = peak;
  out.allocated_end = out.reserved_end = end;
  out.at_peak_allocated[Component::weights] = peak;
  out.n_allocs = 1;
  return out;
}

/// The device's peak is `device`, its processes' are their own.
PhaseReport row(const std::string& name, Bytes device, std::vector<ProcessPhase> processes, int step = 0) {
  PhaseReport out;
  out.phase = name;
  out.step = step;
  out.peak_device = device;
  out.at_peak_device[Component::weights] = device;
  out.seconds = 1;
  out.processes = std::move(processes);
  return out;
}

TEST(PhaseRows, PiecesOfOneNameAreOneRow) {
  PhaseRows rows;
  rows.add(phase("train"), row("train", 90, {process("trainer", 10, 50, 20), process("rollout", 5, 5, 5)}),
           true);
  rows.add(phase("sync"), row("sync", 70, {process("trainer", 20, 20, 20), process("rollout", 5, 40, 40)}),
           true);
  const PhaseReport* shown =
      rows.add(phase("train"),
               row("train", 80, {process("trainer", 20, 30, 25), process("rollout", 40, 41, 41)}), true);
  ASSERT_NE(shown, nullptr);
  EXPECT_EQ(shown->phase, "train");
  const std::vector<PhaseReport> all = rows.take();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].peak_device, 90);
  EXPECT_EQ(all[0].at_peak_device[Component::weights], 90);
  EXPECT_EQ(all[0].seconds, 2);
  const ProcessPhase &trainer = all[0].processes[0], &rollout = all[0].processes[1];
  EXPECT_EQ(trainer.allocated_start, 10);
  EXPECT_EQ(trainer.peak_allocated, 50);
  EXPECT_EQ(trainer.at_peak_allocated[Component::weights], 50);
  EXPECT_EQ(trainer.allocated_end, 25);
  EXPECT_EQ(trainer.n_allocs, 2);
  EXPECT_EQ(rollout.peak_allocated, 41);
}

/// Another step's row of that name stays apart.
TEST(PhaseRows, StepsStayApart) {
  PhaseRows rows;
  rows.add(phase("train"), row("train", 1, {process("trainer", 0, 1, 1)}, 0), true);
  rows.add(phase("train"), row("train", 2, {process("trainer", 1, 2, 2)}, 1), true);
  EXPECT_EQ(rows.take().size(), 2u);
}

TEST(PhaseRows, WhatLiesWithinPassesThroughTheRowsAround) {
  PhaseRows rows;
  rows.add(phase("generate", true, "rollout"), row("generate", 90, {process("trainer", 1, 80, 2)}), true);
  rows.add(phase("ids", false, "rollout"), row("ids", 20, {process("trainer", 2, 20, 9)}), false);
  rows.add(phase("rollout", true, "step"), row("rollout", 9, {process("trainer", 9, 9, 9)}), true);
  rows.add(phase("step"), row("step", 9, {process("trainer", 9, 9, 9)}), true);
  const std::vector<PhaseReport> all = rows.take();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].within, "rollout");
  EXPECT_EQ(all[1].within, "step");
  EXPECT_EQ(all[2].within, "");
  for (std::size_t i : {1u, 2u}) {
    EXPECT_EQ(all[i].peak_device, 90);
    EXPECT_EQ(all[i].processes[0].allocated_start, 1);
    EXPECT_EQ(all[i].processes[0].peak_allocated, 80);
    EXPECT_EQ(all[i].processes[0].allocated_end, 9);
  }
  EXPECT_EQ(all[1].processes[0].n_allocs, 3);
  EXPECT_EQ(all[2].processes[0].n_allocs, 4) << "each counted once";
  EXPECT_EQ(all[0].seconds + all[1].seconds + all[2].seconds, 4) << "seconds are one row's only";
}

TEST(PhaseRows, APhaseWithinALaterRowPassesItsPeaksOn) {
  PhaseRows rows;
  EXPECT_EQ(
      rows.add(phase("gather", false, "train"), row("gather", 99, {process("trainer", 3, 60, 30)}), false),
      nullptr);
  rows.add(phase("loss", true, "train"), row("loss", 50, {process("trainer", 30, 45, 40)}), true);
  rows.add(phase("train"), row("train", 70, {process("trainer", 40, 50, 20)}), true);
  const std::vector<PhaseReport> all = rows.take();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].phase, "loss");
  EXPECT_EQ(all[0].peak_device, 50);
  EXPECT_EQ(all[1].peak_device, 99);
  EXPECT_EQ(all[1].processes[0].peak_allocated, 60);
  EXPECT_EQ(all[1].processes[0].allocated_start, 3);
  EXPECT_EQ(all[1].processes[0].allocated_end, 20);
  // The seconds of a row of its own are not counted twice.
  EXPECT_EQ(all[1].seconds, 2);
}

}  // namespace
}  // namespace headroom

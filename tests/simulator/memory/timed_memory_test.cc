#include "simulator/memory/timed_memory.h"

#include <gtest/gtest.h>

#include "simulator/hardware/library.h"
#include "simulator/memory/counting_memory.h"

namespace headroom {
namespace {

struct Timed {
  Hardware hardware = find_hardware("h200").value();
  CountingMemory inner{false, false};
  TimedMemory memory{inner, hardware, 8};
};

TEST(TimedMemory, PaysForPythonThatNoOperationShows) {
  Timed t;
  t.memory.host_work(HostWork::module_visit, 100);
  t.memory.host_work(HostWork::checkpoint, 2);
  const HostTimes& each = t.hardware.host_times;
  EXPECT_NEAR(t.memory.take_seconds()[Spent::host], 100 * each.module_visit + 2 * each.checkpoint, 1e-12);
}

TEST(TimedMemory, PaysForTheStackOfEveryAllocation) {
  Timed t;
  const auto seconds = [&](bool records) {
    t.memory.records_history = records;
    for (int i = 0; i < 10; ++i) t.memory.free(t.memory.allocate(512, 0, {}));
    return t.memory.take_seconds().total();
  };
  const double plain = seconds(false);
  EXPECT_NEAR(seconds(true) - plain, 10 * t.hardware.host_times.history, 1e-12);
}

Operation work_on(Stream stream, OperationKind kind) {
  Operation out;
  out.kind = kind;
  out.stream = stream;
  out.bytes = kGiB;
  out.sizes = {8, 1, 1, 1, 1, 1};
  return out;
}

TEST(TimedMemory, WorkThatNeedsWhatIsGatheredWaitsForIt) {
  Timed t;
  const auto seconds = [&](bool waits) {
    t.memory.run(work_on(1, OperationKind::all_gather));
    if (waits) t.memory.wait_stream(0, 1);
    t.memory.run(work_on(0, OperationKind::copy));
    return t.memory.take_seconds();
  };
  const Seconds apart = seconds(false), behind = seconds(true);
  EXPECT_NEAR(behind[Spent::network], apart[Spent::network], 1e-9);
  EXPECT_GT(behind[Spent::memory], apart[Spent::memory] + 1e-4);
}

TEST(TimedMemory, StreamsThatWaitForPeersAreBehindByAsManyLaunchesAsMayQueue) {
  Timed t;
  const allocator::Clock& clock = t.memory.clock();
  EXPECT_EQ(clock.reached(1), clock.now(1));
  t.memory.wait_for_peers(1);
  const double behind = clock.reached(1);
  EXPECT_GT(behind, clock.now(1) + 100);
  while (clock.now(1) < behind) t.memory.run(work_on(0, OperationKind::copy));
  EXPECT_GT(clock.reached(1), clock.now(1));
  // Work of its own stream is behind until it is waited for.
  EXPECT_GT(clock.reached(0), clock.now(0));
  t.memory.synchronize();
  EXPECT_EQ(clock.reached(0), clock.now(0));
}

TEST(TimedMemory, EmptyPartsOfAMicroBatchCostTheHostAlone) {
  Timed t;
  const auto seconds = [&](double filled) {
    t.memory.filled = filled;
    t.memory.run(work_on(0, OperationKind::copy));
    t.memory.run(work_on(0, OperationKind::all_gather));
    return t.memory.take_seconds();
  };
  const Seconds full = seconds(1), half = seconds(0.5);
  EXPECT_DOUBLE_EQ(half[Spent::memory], full[Spent::memory] / 2);
  EXPECT_DOUBLE_EQ(half[Spent::network], full[Spent::network]);
  EXPECT_DOUBLE_EQ(half[Spent::host], full[Spent::host]);
}

}  // namespace
}  // namespace headroom

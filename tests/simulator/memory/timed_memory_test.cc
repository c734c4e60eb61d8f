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

}  // namespace
}  // namespace headroom

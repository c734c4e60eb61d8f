#include "simulator/device/occupancy.h"

#include <gtest/gtest.h>

#include <random>

#include "simulator/device/process.h"

namespace headroom {
namespace {

Breakdown of(Component component, Bytes bytes) {
  Breakdown out;
  out[component] = bytes;
  return out;
}

TEST(Occupancy, ThePeakIsOfTheSumNotASumOfPeaks) {
  Occupancy device;
  const std::size_t trainer = device.add("trainer"), rollout = device.add("rollout");
  device.hold(trainer, of(Component::weights, 10));
  device.hold(rollout, of(Component::engine_kv, 50));
  device.hold(rollout, of(Component::context, 3));
  device.take_peak();
  device.reach(trainer, of(Component::activations, 40));  // while the engine sleeps
  device.hold(rollout, of(Component::engine_kv, 50));     // awake again, after the trainer's peak
  const Occupancy::Peak peak = device.take_peak();
  EXPECT_EQ(peak.bytes.total(), 60);
  EXPECT_EQ(peak.bytes[Component::engine_kv], 50);
  EXPECT_EQ(peak.bytes[Component::weights], 10);
  EXPECT_FALSE(peak.bounded);
}

TEST(Occupancy, APhaseStartsWithWhatIsHeld) {
  Occupancy device;
  const std::size_t trainer = device.add("trainer");
  device.hold(trainer, of(Component::weights, 10));
  device.take_peak();
  EXPECT_EQ(device.take_peak().bytes, of(Component::weights, 10));
  device.hold(trainer, of(Component::weights, 4));
  EXPECT_EQ(device.take_peak().bytes.total(), 10);  // the start counts
  EXPECT_EQ(device.take_peak().bytes.total(), 4);
}

TEST(Occupancy, KeepsTheFirstOfEqualMoments) {
  Occupancy device;
  const std::size_t trainer = device.add("trainer");
  device.reach(trainer, of(Component::logits, 7));
  device.reach(trainer, of(Component::optimizer, 7));
  EXPECT_EQ(device.take_peak().bytes[Component::logits], 7);
}

TEST(Occupancy, OverlapBoundsFromAbove) {
  Occupancy device;
  device.add("trainer");
  device.add("rollout");
  device.overlap({of(Component::logits, 7), of(Component::engine_kv, 5)});
  const Occupancy::Peak peak = device.take_peak();
  EXPECT_EQ(peak.bytes.total(), 12);
  EXPECT_TRUE(peak.bounded);
}

// Against the definition: replay random actions, summing every process at every moment.
TEST(Occupancy, AgreesWithAPlainReplay) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Occupancy device;
    std::vector<Bytes> held(3, 0);
    for (int i = 0; i < 3; ++i) device.add("p");
    Bytes highest = 0;
    for (int action = 0; action < 40; ++action) {
      const std::size_t who = random() % 3;
      const Bytes bytes = static_cast<Bytes>(random() % 100);
      const bool stays = random() % 2 == 0;
      Bytes sum = bytes;
      for (std::size_t i = 0; i < 3; ++i)
        if (i != who) sum += held[i];
      highest = std::max(highest, sum);
      if (stays) {
        held[who] = bytes;
        device.hold(who, of(Component::weights, bytes));
      } else {
        device.reach(who, of(Component::weights, bytes));
      }
      if (random() % 10 == 0) {
        EXPECT_EQ(device.take_peak().bytes.total(), highest);
        highest = held[0] + held[1] + held[2];
      }
    }
  }
}

TEST(Process, SumsToReservedAndWhatLiesOutside) {
  const Breakdown bytes = process_on_device(of(Component::weights, 100), 128,
                                            {.context = 10, .communicators = 5, .workspaces = 2});
  EXPECT_EQ(bytes.total(), 145);
  EXPECT_EQ(bytes[Component::allocator_slack], 28);
}

}  // namespace
}  // namespace headroom

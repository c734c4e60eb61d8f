#include "simulator/allocator/virtual_device.h"

#include <limits>

#include <gtest/gtest.h>

namespace headroom::allocator {
namespace {

/// A segment of 300 MiB leaves 20 MiB of its region of 320.
TEST(VirtualDevice, WhatALibraryTakesIsNotFilledAgain) {
  for (const bool taken : {false, true}) {
    VirtualDevice device(Bytes{1} << 40);
    const Address first = *device.allocate(300 * kMiB);
    const Bytes free = device.free_memory();
    if (taken) device.take_addresses(20 * kMiB);
    EXPECT_EQ(device.free_memory(), free);
    const Address second = *device.allocate(20 * kMiB);
    EXPECT_EQ(second == first + 300 * kMiB, !taken);
  }
}

/// A region with something of a library in it stays where it is when its segments have gone.
TEST(VirtualDevice, WhatALibraryTakesKeepsItsRegion) {
  for (const bool taken : {false, true}) {
    VirtualDevice device(Bytes{1} << 40);
    const Address first = *device.allocate(300 * kMiB);
    if (taken) device.take_addresses(20 * kMiB);
    device.free(first, 300 * kMiB);
    const Address larger = *device.allocate(310 * kMiB);
    EXPECT_EQ(larger >= first && larger < first + 320 * kMiB, !taken);
  }
}

TEST(VirtualDevice, RangesEndWhereAddressesDo) {
  VirtualDevice device(Bytes{1} << 40);
  const Bytes large = Bytes{1} << 61;
  const Address first = device.reserve(large, false);
  EXPECT_GT(first, 0);
  EXPECT_EQ(device.reserve(large, false), 0);
  EXPECT_EQ(device.reserve(std::numeric_limits<Bytes>::max(), false), 0);
  EXPECT_FALSE(device.map(0, 2 * kMiB, 2 * kMiB));
  EXPECT_GT(device.reserve(kGiB, false), first);
  device.release(first, large);
  EXPECT_EQ(device.reserve(large, false), first);
}

TEST(VirtualDevice, ARangeTakesTheLowestGap) {
  VirtualDevice device(Bytes{1} << 40);
  const Address a = device.reserve(kGiB, false), b = device.reserve(kGiB, false), c = device.reserve(kGiB, false);
  device.release(b, kGiB);
  EXPECT_EQ(device.reserve(2 * kGiB, false), c + kGiB);
  EXPECT_EQ(device.reserve(kGiB / 2, false), b);
  device.release(a, kGiB);
  EXPECT_EQ(device.reserve(kGiB, false), a);
  EXPECT_EQ(device.reserve(kGiB / 2, false), b + kGiB / 2);
}

class Clocks : public Clock {
 public:
  double now(Stream) const override { return time; }
  double reached(Stream stream) const override { return stream == 1 ? given : 0; }
  double time = 0, given = 0;
};

TEST(VirtualDevice, EventsAreDoneWhenTheClockHasReachedThem) {
  Clocks clock;
  VirtualDevice device(kGiB);
  device.follow(clock);
  clock.given = 5;
  const EventToken event = device.record_event(1), other = device.record_event(2);
  EXPECT_FALSE(device.event_done(event));
  EXPECT_TRUE(device.event_done(other));
  clock.time = 5;
  EXPECT_TRUE(device.event_done(event));
  clock.given = 9;
  const EventToken waited = device.record_event(1);
  device.wait_event(waited);
  EXPECT_TRUE(device.event_done(waited));
}

}  // namespace
}  // namespace headroom::allocator

#include "simulator/allocator/virtual_device.h"

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

}  // namespace
}  // namespace headroom::allocator

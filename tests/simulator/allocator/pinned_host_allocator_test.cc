#include "simulator/allocator/pinned_host_allocator.h"

#include <gtest/gtest.h>

#include "simulator/allocator/virtual_device.h"

namespace headroom::allocator {
namespace {

struct Pinned : testing::Test {
  VirtualDevice device{80 * kGiB};
  VirtualHost host{100 * kGiB};
  AllocatorSettings settings;
  PinnedHostAllocator allocator{settings, host, device};
};

TEST_F(Pinned, BlocksArePowersOfTwoAndServeOnlyTheirOwnPower) {
  const PinnedBlockId three = allocator.allocate(3 * kGiB), five = allocator.allocate(5 * kGiB);
  allocator.free(three);
  allocator.free(five);
  EXPECT_EQ(allocator.allocate(5 * kGiB / 2), three);
  EXPECT_EQ(host.used(), 12 * kGiB);
  allocator.allocate(3 * kGiB);
  EXPECT_EQ(host.used(), 16 * kGiB);
  EXPECT_EQ(allocator.held(), 16 * kGiB);
  EXPECT_EQ(allocator.in_use(), 8 * kGiB);
}

TEST_F(Pinned, APowerOfTwoIsNotRounded) {
  EXPECT_EQ(allocator.size(allocator.allocate(4096)), 4096);
  EXPECT_EQ(allocator.size(allocator.allocate(4097)), 8192);
  EXPECT_EQ(allocator.size(allocator.allocate(1)), 1);
  EXPECT_EQ(allocator.allocate(0), kNullPinnedBlock);
}

TEST_F(Pinned, NewestFreedBlockIsReusedFirst) {
  const PinnedBlockId a = allocator.allocate(100), b = allocator.allocate(100);
  allocator.free(a);
  allocator.free(b);
  EXPECT_EQ(allocator.allocate(128), b);
  EXPECT_EQ(allocator.allocate(65), a);
}

TEST_F(Pinned, ABlockInUseByACopyWaitsForItsStream) {
  device.hold_events(true);
  const PinnedBlockId a = allocator.allocate(kMiB);
  allocator.record_stream(a, 1);
  allocator.record_stream(a, 2);
  allocator.free(a);
  EXPECT_EQ(allocator.in_use(), kMiB);
  EXPECT_NE(allocator.allocate(kMiB), a);
  device.synchronize();
  EXPECT_EQ(allocator.allocate(kMiB), a);
}

TEST_F(Pinned, OnlyEmptyCacheReturnsMemory) {
  allocator.free(allocator.allocate(3 * kGiB));
  EXPECT_EQ(host.used(), 4 * kGiB);
  allocator.empty_cache();
  EXPECT_EQ(host.used(), 0);
  EXPECT_EQ(host.peak(), 4 * kGiB);
  EXPECT_EQ(allocator.statistics().num_host_free, 1);
}

TEST_F(Pinned, TheHostCanBeFull) {
  EXPECT_NE(allocator.allocate(33 * kGiB), kOutOfHostMemory);
  EXPECT_EQ(allocator.allocate(33 * kGiB), kOutOfHostMemory);
  EXPECT_EQ(allocator.held(), 64 * kGiB);
}

TEST(PinnedReserve, IsTakenOnceAndKept) {
  VirtualDevice device(80 * kGiB);
  VirtualHost host;
  AllocatorSettings settings;
  settings.pinned_reserve_segment_size = 10 * kMiB;
  PinnedHostAllocator allocator(settings, host, device);
  const PinnedBlockId a = allocator.allocate(8 * kMiB);
  EXPECT_EQ(host.used(), 10 * kMiB);
  allocator.allocate(4 * kMiB);
  EXPECT_EQ(host.used(), 14 * kMiB);
  allocator.free(a);
  EXPECT_EQ(allocator.allocate(7 * kMiB), a);
  allocator.free(a);
  allocator.empty_cache();
  EXPECT_EQ(host.used(), 14 * kMiB);
  EXPECT_EQ(allocator.held(), 14 * kMiB);
  // The 8 MiB are not handed out again; the 2 MiB never handed out are.
  EXPECT_EQ(allocator.statistics().allocated_bytes.current, 4 * kMiB);
  allocator.allocate(2 * kMiB);
  EXPECT_EQ(host.used(), 14 * kMiB);
  allocator.allocate(8 * kMiB);
  EXPECT_EQ(host.used(), 22 * kMiB);
}

TEST(PinnedThresholds, LargeBlocksAreNeitherRoundedNorKept) {
  VirtualDevice device(80 * kGiB);
  VirtualHost host;
  AllocatorSettings settings;
  settings.pinned_max_round_threshold = kMiB;
  settings.pinned_max_cached_size = 2 * kMiB;
  PinnedHostAllocator allocator(settings, host, device);
  allocator.free(allocator.allocate(3 * kMiB));
  EXPECT_EQ(host.used(), 0);
  EXPECT_EQ(host.peak(), 3 * kMiB);
  const PinnedBlockId odd = allocator.allocate(kMiB + 5);
  allocator.free(odd);
  EXPECT_NE(allocator.allocate(kMiB + 7), odd);
  EXPECT_EQ(allocator.allocate(kMiB + 5), odd);
}

}  // namespace
}  // namespace headroom::allocator

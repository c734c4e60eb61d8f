#include "simulator/allocator/pinned_allocator.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(PinnedAllocator, RoundsToPowersOfTwo) {
  PinnedAllocator pinned;
  pinned.allocate(520 * kMiB, Component::weights);
  EXPECT_EQ(pinned.reserved(), kGiB);
  EXPECT_EQ(pinned.breakdown()[Component::weights], 520 * kMiB);
  EXPECT_EQ(pinned.breakdown()[Component::allocator_slack], 504 * kMiB);
  EXPECT_EQ(pinned.allocate(0, Component::weights), kNoHostBlock);
}

TEST(PinnedAllocator, KeepsFreedBlocksForTheSameSizeOnly) {
  PinnedAllocator pinned;
  pinned.free(pinned.allocate(600, Component::optimizer));
  EXPECT_EQ(pinned.reserved(), 1024);
  const HostBlock again = pinned.allocate(1000, Component::weights);
  EXPECT_EQ(pinned.reserved(), 1024);
  pinned.allocate(500, Component::weights);
  EXPECT_EQ(pinned.reserved(), 1024 + 512);
  pinned.free(again);
  pinned.free(kNoHostBlock);
  pinned.empty_cache();
  EXPECT_EQ(pinned.reserved(), 512);
  EXPECT_EQ(pinned.breakdown().total(), 512);
}

TEST(PinnedAllocator, ThresholdsOfItsSettings) {
  PinnedAllocator pinned({.largest_rounded = 1000, .largest_kept = 512});
  const HostBlock large = pinned.allocate(1001, Component::weights);
  EXPECT_EQ(pinned.reserved(), 1001);
  pinned.free(large);
  EXPECT_EQ(pinned.reserved(), 0);
  pinned.free(pinned.allocate(300, Component::weights));
  EXPECT_EQ(pinned.reserved(), 512);
}

}  // namespace
}  // namespace headroom

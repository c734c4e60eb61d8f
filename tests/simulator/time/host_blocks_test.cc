#include "simulator/time/host_blocks.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

constexpr HostRates kRates{.first_touch = 1e9, .unmap = 1e10, .pin = 2e9};
constexpr HostBlock kOne{0}, kTwo{1};

TEST(HostBlocks, LargeOnesAreTouchedAnewEachTime) {
  HostBlocks blocks(kRates);
  for (int i = 0; i < 2; ++i) {
    blocks.allocate(kOne, 64 * kMiB, HostKind::pageable);
    EXPECT_DOUBLE_EQ(blocks.first_touch(kOne), 64.0 * kMiB / 1e9);
    EXPECT_DOUBLE_EQ(blocks.first_touch(kOne), 0);
    EXPECT_DOUBLE_EQ(blocks.free(kOne), 64.0 * kMiB / 1e10);
  }
}

TEST(HostBlocks, TheHeapKeepsWhatItOnceHad) {
  HostBlocks blocks(kRates);
  blocks.allocate(kOne, kMiB, HostKind::pageable);
  EXPECT_GT(blocks.first_touch(kOne), 0);
  EXPECT_DOUBLE_EQ(blocks.free(kOne), 0);
  blocks.allocate(kOne, kMiB, HostKind::pageable);
  EXPECT_DOUBLE_EQ(blocks.first_touch(kOne), 0);
  blocks.allocate(kTwo, kMiB, HostKind::pageable);
  EXPECT_GT(blocks.first_touch(kTwo), 0);
}

TEST(HostBlocks, PinnedOnesArePaidWhenTheyAreFirstPinned) {
  HostBlocks blocks(kRates);
  EXPECT_DOUBLE_EQ(blocks.allocate(kOne, kMiB, HostKind::pinned), 1.0 * kMiB / 2e9);
  EXPECT_TRUE(blocks.pinned(kOne));
  EXPECT_DOUBLE_EQ(blocks.first_touch(kOne), 0);
  blocks.free(kOne);
  EXPECT_DOUBLE_EQ(blocks.allocate(kTwo, kMiB, HostKind::pinned), 0);
}

}  // namespace
}  // namespace headroom

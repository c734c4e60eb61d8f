#include "simulator/replay/snapshot_heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::replay {
namespace {

constexpr std::int64_t kStart = 0x7f0000000000;

/// A hole of 20 MiB of which a request leaves half a MiB.
TEST(SnapshotHeap, SmallRestsGoWithTheBlockUnlessSegmentsMayExpand) {
  for (const bool expandable : {false, true}) {
    allocator::AllocatorSettings settings;
    settings.expandable_segments = expandable;
    SnapshotHeap heap(settings);
    ASSERT_TRUE(heap.add_segment(kStart, 20 * kMiB, {}));
    ASSERT_TRUE(heap.allocate(kStart, 20 * kMiB - kMiB / 2, 0, 0));
    EXPECT_EQ(heap.allocated(), expandable ? 20 * kMiB - kMiB / 2 : 20 * kMiB);
  }
}

/// Programs turn expandable segments on and off while they run.
TEST(SnapshotHeap, ABlockWasSplitWhereAnotherLiesBehindItsRequest) {
  const allocator::AllocatorSettings settings;
  SnapshotHeap heap(settings);
  const Bytes most = 20 * kMiB - kMiB / 2;
  ASSERT_TRUE(heap.add_segment(kStart, 20 * kMiB, {}));
  ASSERT_TRUE(heap.allocate(kStart, most, 0, 0));
  const Status inside = heap.allocate(kStart + kMiB, kMiB, 0, 1);
  ASSERT_FALSE(inside);
  EXPECT_THAT(inside.error().message, testing::HasSubstr("inside a block that is in use"));
  ASSERT_TRUE(heap.allocate(kStart + most, kMiB / 4, 0, 1));
  EXPECT_EQ(heap.allocated(), most + kMiB / 2);  // the rest of the rest goes with it
  for (const std::int64_t address : {kStart, kStart + most}) {
    ASSERT_TRUE(heap.request_free(address));
    ASSERT_TRUE(heap.complete_free(address));
  }
  EXPECT_EQ(heap.allocated(), 0);
  EXPECT_EQ(heap.active(), 0);
  ASSERT_TRUE(heap.remove_segment(kStart, 20 * kMiB));
}

}  // namespace
}  // namespace headroom::replay

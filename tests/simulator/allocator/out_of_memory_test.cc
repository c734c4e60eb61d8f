#include "simulator/allocator/out_of_memory.h"

#include <gmock/gmock.h>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/virtual_device.h"

namespace headroom::allocator {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A card of 80 GiB with 100 MiB free, of which the driver keeps a page.
struct NearlyFull : testing::Test {
  void use(const char* settings) { allocator.emplace(parse_allocator_settings(settings).value(), device); }
  std::string message() { return allocator->out_of_memory().value().message(); }

  VirtualDevice device{std::make_shared<CardMemory>(80 * kGiB, 80 * kGiB - 100 * kMiB, kKeptByDriver)};
  std::optional<CachingAllocator> allocator;
};

TEST_F(NearlyFull, StatesWhatPyTorchStates) {
  use("");
  const PoolId pool = allocator->create_pool();
  allocator->begin_pool(pool);
  allocator->free(allocator->allocate(20 * kMiB));
  allocator->end_pool(pool);
  allocator->allocate(30 * kMiB);
  allocator->set_memory_fraction(0.5);
  EXPECT_EQ(allocator->allocate(70 * kMiB + 1), kOutOfMemory);
  EXPECT_THAT(
      message(),
      HasSubstr("tried to get 72.00 MiB from GPU 0, which has 80.00 GiB in total and 50.00 MiB free"));
  EXPECT_THAT(message(), HasSubstr("this process holds 79.95 GiB"));
  EXPECT_THAT(message(), HasSubstr("40.00 GiB allowed for this process"));
  // As in PyTorch, cached blocks of private pools count as allocated.
  EXPECT_THAT(message(), HasSubstr("50.00 MiB allocated, 20.00 MiB of it in private pools, 0 B reserved"));
}

TEST_F(NearlyFull, TheDriverKeepsAPage) {
  use("");
  EXPECT_EQ(allocator->allocate(100 * kMiB), kOutOfMemory);
  EXPECT_NE(allocator->allocate(98 * kMiB), kOutOfMemory);
  EXPECT_EQ(allocator->allocate(1), kOutOfMemory);
}

TEST_F(NearlyFull, ChunksThatAreNoWholePagesAreAnErrorOfTheDriver) {
  use("expandable_segments:True,large_segment_size_mb:13");
  EXPECT_EQ(allocator->allocate(3 * kMiB), kOutOfMemory);
  EXPECT_EQ(allocator->out_of_memory()->refused_chunk, 13 * kMiB);
  EXPECT_THAT(message(), HasSubstr("large_segment_size_mb"));
  EXPECT_THAT(message(), Not(HasSubstr("out of memory")));
  EXPECT_EQ(allocator->statistics().num_ooms, 0);
  EXPECT_EQ(allocator->statistics().num_alloc_retries, 0);
  EXPECT_NE(allocator->allocate(kMiB), kOutOfMemory);  // small chunks are pages
}

// Native segments of such a size are possible, and take whole pages.
TEST_F(NearlyFull, SegmentsTakeWholePages) {
  use("large_segment_size_mb:13");
  allocator->allocate(3 * kMiB);
  EXPECT_EQ(allocator->reserved(), 13 * kMiB);
  EXPECT_EQ(device.free_memory(), 86 * kMiB);
  allocator->allocate(12 * kMiB);
  allocator->allocate(11 * kMiB);
  EXPECT_EQ(device.process_memory(), 80 * kGiB - device.free_memory());
}

TEST(BusyStreams, OnlyTheirOwnEventsWait) {
  VirtualDevice device(80 * kGiB);
  device.keep_busy(1);
  const EventToken busy = device.record_event(1), idle = device.record_event(2);
  EXPECT_FALSE(device.event_done(busy));
  EXPECT_TRUE(device.event_done(idle));
  device.synchronize();
  EXPECT_TRUE(device.event_done(busy));
  EXPECT_TRUE(device.event_done(device.record_event(1)));
}

}  // namespace
}  // namespace headroom::allocator

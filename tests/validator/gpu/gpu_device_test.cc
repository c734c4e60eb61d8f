#include "validator/memory/gpu_device.h"

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/virtual_device.h"
#include "tests/validator/gpu/gpu_test.h"

namespace headroom::gpu {
namespace {

using allocator::AllocatorSettings;
using allocator::BlockId;
using allocator::CachingAllocator;

class GpuDeviceTest : public GpuTest {
 protected:
  /// The same random program over the real card and the virtual one.
  void compare(const AllocatorSettings& settings) {
    Streams streams;
    auto device = GpuDevice::create(streams);
    ASSERT_TRUE(device) << device.error().text();
    allocator::VirtualDevice model(device->total_memory());
    CachingAllocator real(settings, *device), simulated(settings, model);
    // The first memset loads its kernel, which takes memory of its own.
    const DeviceArray loaded(DType::uint8, kMiB);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const Bytes before = device->free_memory();
    std::vector<std::pair<BlockId, BlockId>> live;
    std::uniform_int_distribution<int> percent(0, 99);
    std::uniform_real_distribution<double> exponent(9, 27.5);
    for (int i = 0; i < 2000; ++i) {
      if (live.empty() || percent(random_) < 55) {
        const auto bytes = static_cast<Bytes>(std::exp2(exponent(random_)));
        live.emplace_back(real.allocate(bytes), simulated.allocate(bytes));
        ASSERT_NE(live.back().first, allocator::kOutOfMemory);
        ASSERT_EQ(cudaMemset(reinterpret_cast<void*>(real.address(live.back().first)), 1,
                             static_cast<std::size_t>(bytes)),
                  cudaSuccess);
      } else {
        const auto at = static_cast<std::size_t>(random_() % live.size());
        real.free(live[at].first);
        simulated.free(live[at].second);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      }
      if (percent(random_) == 0) {
        real.empty_cache();
        simulated.empty_cache();
      }
      ASSERT_EQ(real.allocated(), simulated.allocated());
      // Reserved bytes may differ by which of equal free blocks has the lowest address; what is held is
      // exact:
      const Bytes held = before - device->free_memory();
      ASSERT_GE(held, real.reserved());
      ASSERT_LE(held, real.reserved() + 2 * kMiB * static_cast<Bytes>(real.segments().size() + 1));
    }
    for (auto [a, b] : live) {
      real.free(a);
      simulated.free(b);
    }
    real.empty_cache();
    simulated.empty_cache();
    EXPECT_EQ(real.reserved(), simulated.reserved());
    EXPECT_EQ(device->free_memory(), before);
    EXPECT_TRUE(device->error()) << device->error().error().text();
    EXPECT_NEAR(static_cast<double>(real.peak_reserved()), static_cast<double>(simulated.peak_reserved()),
                0.05 * static_cast<double>(simulated.peak_reserved()));
  }
};

TEST_F(GpuDeviceTest, SegmentsFromTheRuntime) {
  compare({});
}
TEST_F(GpuDeviceTest, ExpandableSegments) {
  AllocatorSettings settings;
  settings.expandable_segments = true;
  compare(settings);
}

TEST_F(GpuDeviceTest, RunningOutIsAnAnswerAndGivesEverythingBack) {
  Streams streams;
  auto device = GpuDevice::create(streams);
  ASSERT_TRUE(device);
  const Bytes before = device->free_memory();
  for (bool expandable : {false, true}) {
    AllocatorSettings settings;
    settings.expandable_segments = expandable;
    CachingAllocator memory(settings, *device);
    const BlockId first = memory.allocate(kGiB);
    EXPECT_EQ(memory.allocate(device->total_memory()), allocator::kOutOfMemory);
    ASSERT_TRUE(memory.out_of_memory());
    memory.free(first);
    memory.empty_cache();
    EXPECT_EQ(device->free_memory(), before);
    EXPECT_TRUE(device->error()) << device->error().error().text();
  }
}

TEST_F(GpuDeviceTest, BlocksUsedOnAnotherStreamWaitForIt) {
  Streams streams;
  auto device = GpuDevice::create(streams);
  ASSERT_TRUE(device);
  CachingAllocator memory({}, *device);
  const BlockId block = memory.allocate(64 * kMiB);
  auto side = streams.get(1);
  ASSERT_TRUE(side);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(cudaMemsetAsync(reinterpret_cast<void*>(memory.address(block)), i, 64 * kMiB, *side),
              cudaSuccess);
  }
  memory.record_stream(block, 1);
  memory.free(block);
  EXPECT_EQ(memory.active(), 64 * kMiB);
  ASSERT_EQ(cudaStreamSynchronize(*side), cudaSuccess);
  memory.free(memory.allocate(1));  // an allocation processes the events that are done
  EXPECT_EQ(memory.active(), 0);
}

}  // namespace
}  // namespace headroom::gpu

#include "simulator/memory/counting_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace headroom {
namespace {

constexpr Label kWeights{.component = Component::weights};
constexpr Label kActivations{.component = Component::activations};

TEST(CountingMemory, RoundsBlocksAndKeepsThePeaksParts) {
  CountingMemory memory;
  const Block weights = memory.allocate(1000, 0, kWeights);
  const Block activations = memory.allocate(1, 0, kActivations);
  EXPECT_EQ(memory.live(), 1024 + 512);
  memory.free(activations);
  EXPECT_EQ(memory.allocate(0, 0, kActivations), kNoBlock);
  EXPECT_EQ(memory.peak(), 1536);
  EXPECT_EQ(memory.at_peak()[Component::weights], 1024);
  EXPECT_EQ(memory.at_peak()[Component::activations], 512);
  memory.reset_peak();
  EXPECT_EQ(memory.peak(), 1024);
  memory.relabel(weights, {.component = Component::gradients});
  EXPECT_EQ(memory.components()[Component::weights], 0);
  EXPECT_EQ(memory.components()[Component::gradients], 1024);
}

TEST(CountingMemory, PinnedHostBlocksArePowersOfTwo) {
  CountingMemory memory;
  const HostBlock block = memory.allocate_host(5 * kGiB, HostKind::pinned, Component::optimizer);
  memory.allocate_host(5 * kGiB, HostKind::pageable, Component::optimizer);
  EXPECT_EQ(memory.host_live(), 13 * kGiB);
  memory.free_host(block);
  EXPECT_EQ(memory.host_live(), 5 * kGiB);
  EXPECT_EQ(memory.host_peak(), 13 * kGiB);
}

TEST(CountingMemory, ComponentsAlwaysSumToLive) {
  std::mt19937 random(7);
  CountingMemory memory(true);
  std::vector<Block> held;
  Bytes highest = 0;
  for (int i = 0; i < 20000; ++i) {
    if (held.empty() || random() % 5 < 3) {
      held.push_back(memory.allocate(1 + static_cast<Bytes>(random() % 100000), 0,
                                     {.component = static_cast<Component>(random() % kComponents)}));
    } else {
      std::swap(held[random() % held.size()], held.back());
      memory.free(held.back());
      held.pop_back();
    }
    if (random() % 7 == 0) memory.run({});
    highest = std::max(highest, memory.live());
    ASSERT_EQ(memory.components().total(), memory.live());
  }
  EXPECT_EQ(memory.peak(), highest);
  EXPECT_EQ(memory.at_peak().total(), highest);
  const auto& moments = memory.end_moments();
  const auto highest_moment = std::max_element(moments.begin(), moments.end(),
                                               [](const auto& a, const auto& b) { return a.live < b.live; });
  EXPECT_EQ(highest_moment->live, highest);
  EXPECT_EQ(highest_moment->components(), memory.at_peak());
}

// A host that runs ahead: freed blocks that another stream uses are back once a later mark was waited for.
TEST(CountingMemory, KeepsBlocksOfOtherStreamsActiveUntilTheHostWaits) {
  CountingMemory memory(false, true);
  const Block gathered = memory.allocate(4 * kMiB, 1, {});
  memory.record_stream(gathered, 0);
  const Block own = memory.allocate(kMiB, 1, {});
  memory.record_stream(own, 1);  // its own stream: nothing to wait for
  memory.free(gathered);
  const StreamMark mark = memory.record_event(0);
  memory.free(own);
  EXPECT_EQ(memory.live(), 0);
  EXPECT_EQ(memory.active(), 4 * kMiB);
  const Block next = memory.allocate(4 * kMiB, 1, {});
  EXPECT_EQ(memory.peak(), 5 * kMiB);
  EXPECT_EQ(memory.active_peak(), 8 * kMiB);
  EXPECT_EQ(memory.reserved(), 8 * kMiB);
  memory.wait_event(mark);
  EXPECT_EQ(memory.active(), 4 * kMiB);
  memory.record_stream(next, 0);
  memory.free(next);
  memory.empty_cache();  // waits for everything
  EXPECT_EQ(memory.active(), 0);
  EXPECT_EQ(memory.reserved(), 0);
}

TEST(CountingMemory, WithoutARunAheadFreedIsFree) {
  CountingMemory memory;
  const Block block = memory.allocate(4 * kMiB, 1, {});
  memory.record_stream(block, 0);
  memory.free(block);
  EXPECT_EQ(memory.active(), 0);
}

TEST(CountingMemory, ReservesTheHighestSinceTheCacheWasEmptied) {
  CountingMemory memory;
  const Block first = memory.allocate(4096, 0, {});
  memory.free(memory.allocate(8192, 0, {}));
  EXPECT_EQ(memory.reserved(), 12288);
  memory.free(first);
  memory.reset_peak();
  EXPECT_EQ(memory.reserved_peak(), 12288);
  memory.empty_cache();
  EXPECT_EQ(memory.reserved(), 0);
  memory.allocate(512, 0, {});
  EXPECT_EQ(memory.reserved(), 512);
}

}  // namespace
}  // namespace headroom

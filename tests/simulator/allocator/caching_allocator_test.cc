// Properties over long random streams: the structure is sound after every event, and the slow obvious
// allocator of reference_allocator.h does exactly the same.

#include "simulator/allocator/caching_allocator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "simulator/allocator/virtual_device.h"
#include "tests/simulator/allocator/reference_allocator.h"
#include "tests/simulator/allocator/soundness.h"

namespace headroom::allocator {
namespace {

struct Stress {
  const char* name;
  const char* settings;
  Bytes capacity, limit;
  int streams;
  bool hold_events;
  Bytes largest;
};

void PrintTo(const Stress& stress, std::ostream* out) {
  *out << stress.name;
}

class RandomStream : public testing::TestWithParam<Stress> {
 protected:
  Bytes size() {
    const auto below = [&](Bytes bound) {
      return static_cast<Bytes>(random_() % static_cast<std::uint64_t>(bound)) + 1;
    };
    switch (random_() % 8) {
      case 0:
        return kMiB + below(512) - 256;
      case 1:
        return below(4 * kMiB);
      case 2:
        return 10 * kMiB + (below(3) - 2) * 512;
      case 3:
        return below(GetParam().largest);
      case 4:
        return 512 * below(8);
      default:
        return below(64 * kKiB);
    }
  }
  std::mt19937_64 random_{7};
};

TEST_P(RandomStream, IsSoundAndEqualsTheReference) {
  const Stress& stress = GetParam();
  const AllocatorSettings settings = parse_allocator_settings(stress.settings).value();
  const auto card = [&] { return std::make_shared<CardMemory>(80 * kGiB, 80 * kGiB - stress.capacity); };
  VirtualDevice device(card()), reference_device(card());
  CachingAllocator allocator(settings, device);
  test::ReferenceAllocator reference(settings, reference_device);
  if (stress.limit != 0) {
    allocator.set_memory_fraction(static_cast<double>(stress.limit) / static_cast<double>(80 * kGiB));
    reference.set_limit(allocator.limit().value());
  }
  device.hold_events(stress.hold_events);
  reference_device.hold_events(stress.hold_events);
  struct Live {
    BlockId id;
    test::ReferenceAllocator::Block* block;
  };
  std::vector<Live> live;
  int failures = 0;
  for (int step = 0; step < 1'500; ++step) {
    SCOPED_TRACE(fmt::format("step {}", step));
    const auto dice = random_() % 1000;
    // The live set grows and shrinks in turns.
    const bool growing = step / 500 % 2 == 0;
    if (dice < (growing ? 560u : 430u)) {
      const Bytes bytes = size();
      const auto stream = static_cast<Stream>(random_() % static_cast<unsigned>(stress.streams));
      const BlockId id = allocator.allocate(bytes, stream);
      auto* block = reference.allocate(bytes, stream);
      ASSERT_EQ(id == kOutOfMemory, block == nullptr);
      if (block == nullptr) {
        ++failures;
      } else {
        ASSERT_EQ(allocator.address(id), block->address);
        ASSERT_EQ(allocator.size(id), block->size);
        live.push_back({id, block});
      }
    } else if (dice < 985 && !live.empty()) {
      std::swap(live[random_() % live.size()], live.back());
      if (stress.streams > 1 && random_() % 4 == 0) {
        for (int i = 0; i < 2; ++i) {
          const auto stream = static_cast<Stream>(random_() % static_cast<unsigned>(stress.streams));
          allocator.record_stream(live.back().id, stream);
          reference.record_stream(live.back().block, stream);
        }
      }
      allocator.free(live.back().id);
      reference.free(live.back().block);
      live.pop_back();
    } else if (dice < 995) {
      device.synchronize();
      reference_device.synchronize();
    } else {
      device.synchronize();
      reference_device.synchronize();
      allocator.empty_cache();
      reference.empty_cache();
    }
    ASSERT_EQ(allocator.allocated(), reference.current("allocated_bytes"));
    ASSERT_EQ(allocator.reserved(), reference.current("reserved_bytes"));
    ASSERT_EQ(allocator.active(), reference.current("active_bytes"));
    ASSERT_EQ(allocator.inactive_split(), reference.current("inactive_split_bytes"));
    ASSERT_EQ(device.card().used(), reference_device.card().used());
    ASSERT_EQ(test::unsound(allocator), "");
  }
  EXPECT_EQ(failures > 0, stress.capacity < kGiB || stress.limit != 0) << failures;
  for (const auto& [name, value] : named_statistics(allocator.statistics())) {
    if (name == "max_split_size") continue;
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) {
      EXPECT_EQ(value, reference.counts[name]) << name;
      continue;
    }
    const Statistic& s = reference.statistics[name.substr(0, dot)];
    const std::string part = name.substr(dot + 1);
    EXPECT_EQ(value, part == "current"     ? s.current
                     : part == "peak"      ? s.peak
                     : part == "allocated" ? s.allocated
                                           : s.freed)
        << name;
  }
}

TEST(CachingAllocator, TakesLittleMemoryForALiveBlock) {
  VirtualDevice device(Bytes{1} << 50);
  CachingAllocator allocator(AllocatorSettings{}, device);
  std::mt19937_64 random(5);
  std::vector<BlockId> live(10'000);
  const auto size = [&] {
    return static_cast<Bytes>(random() % (random() % 4 == 0 ? 30 * kMiB : 100 * kKiB)) + 1;
  };
  for (BlockId& id : live) id = allocator.allocate(size());
  for (int i = 0; i < 100'000; ++i) {
    BlockId& id = live[random() % live.size()];
    allocator.free(id);
    id = allocator.allocate(size());
  }
  EXPECT_LE(allocator.footprint(), 200 * live.size());
}

constexpr Bytes kAmple = 60 * kGiB;
INSTANTIATE_TEST_SUITE_P(
    CachingAllocator, RandomStream,
    testing::Values(
        Stress{"native", "", kAmple, 0, 1, false, 200 * kMiB},
        Stress{"native_small_card", "", 400 * kMiB, 0, 1, false, 100 * kMiB},
        Stress{"native_limit", "", kAmple, 600 * kMiB, 2, false, 100 * kMiB},
        Stress{"native_streams", "", kAmple, 0, 3, false, 60 * kMiB},
        Stress{"native_busy_streams", "", kAmple, 0, 4, true, 60 * kMiB},
        Stress{"max_split", "max_split_size_mb:32", 500 * kMiB, 0, 2, false, 150 * kMiB},
        Stress{"max_split_rounding", "max_split_size_mb:30,max_non_split_rounding_mb:60", 700 * kMiB, 0, 1,
               false, 150 * kMiB},
        Stress{"garbage", "garbage_collection_threshold:0.6", kAmple, 900 * kMiB, 1, false, 100 * kMiB},
        Stress{"garbage_max_split", "max_split_size_mb:64,garbage_collection_threshold:0.5", kAmple,
               800 * kMiB, 2, false, 150 * kMiB},
        Stress{"rounding", "roundup_power2_divisions:[1:8,16:4,64:2,>:1]", kAmple, 0, 1, false, 200 * kMiB},
        Stress{"large_segments", "large_segment_size_mb:33", kAmple, 0, 1, false, 60 * kMiB},
        Stress{"expandable", "expandable_segments:True", kAmple, 0, 1, false, 200 * kMiB},
        Stress{"expandable_small_card", "expandable_segments:True", 400 * kMiB, 0, 2, false, 100 * kMiB},
        Stress{"expandable_limit", "expandable_segments:True,garbage_collection_threshold:0.7", kAmple,
               500 * kMiB, 1, false, 100 * kMiB},
        Stress{"expandable_streams", "expandable_segments:True", kAmple, 0, 3, true, 60 * kMiB},
        Stress{"expandable_max_split", "expandable_segments:True,max_split_size_mb:40", 600 * kMiB, 0, 1,
               false, 150 * kMiB}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace headroom::allocator

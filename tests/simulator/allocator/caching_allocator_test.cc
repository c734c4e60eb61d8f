// Properties over long random streams: the structure is sound after every event, and the slow obvious
// allocator of reference_allocator.h does exactly the same.

#include "simulator/allocator/caching_allocator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "simulator/allocator/virtual_device.h"
#include "tests/simulator/allocator/reference_allocator.h"

namespace headroom::allocator {
namespace {

/// What must hold at any time, recomputed from the blocks alone.
void expect_sound(const CachingAllocator& allocator) {
  std::map<std::string, std::int64_t> sums;
  std::map<std::tuple<PoolId, bool, Stream>, std::vector<std::pair<Bytes, Address>>> free;
  std::map<Address, Bytes> extents;
  for (const SegmentView& segment : allocator.segments()) {
    ASSERT_TRUE(extents.emplace(segment.address, segment.size).second);
    const char* half = segment.small ? "small" : "large";
    Address at = segment.address;
    BlockState previous = BlockState::none;
    const auto add = [&](const std::string& name, std::int64_t amount) {
      sums[name + ".all"] += amount;
      sums[name + "." + half] += amount;
    };
    if (!segment.expandable) {
      add("segment", 1);
      add("reserved", segment.size);
    }
    for (const auto& block : segment.blocks) {
      ASSERT_EQ(block.address, at) << "blocks tile their segment";
      ASSERT_GT(block.size, 0);
      ASSERT_EQ(block.size % kMinBlock, 0);
      at += block.size;
      ASSERT_FALSE(block.state == previous &&
                   (previous == BlockState::free || previous == BlockState::unmapped))
          << "free neighbours are merged";
      previous = block.state;
      ASSERT_TRUE(segment.expandable || block.state != BlockState::unmapped);
      if (segment.expandable && block.state != BlockState::unmapped) add("reserved", block.size);
      if (block.state == BlockState::allocated) {
        add("allocation", 1);
        add("allocated", block.size);
        ASSERT_EQ(allocator.address(block.id), block.address);
        ASSERT_EQ(allocator.segment_offset(block.id), block.address - segment.address);
      }
      if (block.state == BlockState::allocated || block.state == BlockState::pending) {
        add("active", 1);
        add("active_bytes", block.size);
        add("requested", block.requested);
        ASSERT_LE(block.requested, block.size);
      }
      if (block.state == BlockState::free) {
        free[{segment.pool, segment.small, segment.stream}].emplace_back(block.size, block.address);
        if (!segment.expandable && segment.blocks.size() > 1) {
          add("split", 1);
          add("split_bytes", block.size);
        }
      }
    }
    ASSERT_EQ(at, segment.address + segment.size);
  }
  Address end = -1;
  for (const auto& [address, size] : extents) {
    ASSERT_GE(address, end) << "segments do not overlap";
    end = address + size;
  }
  const MemoryStatistics s = allocator.statistics();
  for (const auto& [pool, stats] :
       {std::pair{".all", s.all}, {".small", s.small_pool}, {".large", s.large_pool}}) {
    const auto sum = [&](const char* name) { return sums[name + std::string(pool)]; };
    ASSERT_EQ(stats.allocation.current, sum("allocation"));
    ASSERT_EQ(stats.allocated_bytes.current, sum("allocated"));
    ASSERT_EQ(stats.active.current, sum("active"));
    ASSERT_EQ(stats.active_bytes.current, sum("active_bytes"));
    ASSERT_EQ(stats.requested_bytes.current, sum("requested"));
    ASSERT_EQ(stats.segment.current, sum("segment"));
    ASSERT_EQ(stats.reserved_bytes.current, sum("reserved"));
    ASSERT_EQ(stats.inactive_split.current, sum("split"));
    ASSERT_EQ(stats.inactive_split_bytes.current, sum("split_bytes"));
  }
  for (auto& [key, expected] : free) {
    std::sort(expected.begin(), expected.end());
    const auto [pool, small, stream] = key;
    std::vector<std::pair<Bytes, Address>> listed;
    for (const BlockId id : allocator.free_blocks(pool, small, stream))
      listed.emplace_back(allocator.size(id), allocator.address(id));
    ASSERT_EQ(listed, expected) << "every free block is listed, in order";
  }
}

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
  for (int step = 0; step < 3'000; ++step) {
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
    ASSERT_NO_FATAL_FAILURE(expect_sound(allocator));
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

#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "simulator/allocator/caching_allocator.h"

namespace headroom::allocator::test {

/// What must hold at any time, recomputed from the blocks alone. Empty when it does, else what does not.
class Soundness {
 public:
  explicit Soundness(const CachingAllocator& allocator) : allocator_(allocator) {}

  std::string check() {
    for (const SegmentView& segment : allocator_.segments()) check_segment(segment);
    Address end = -1;
    for (const auto& [address, size] : extents_) {
      require(address >= end, "segments do not overlap");
      end = address + size;
    }
    const MemoryStatistics s = allocator_.statistics();
    check_sums("all", s.all);
    check_sums("small", s.small_pool);
    check_sums("large", s.large_pool);
    for (auto& [key, expected] : free_) {
      std::sort(expected.begin(), expected.end());
      const auto [pool, small, stream] = key;
      std::vector<std::pair<Bytes, Address>> listed;
      for (const BlockId id : allocator_.free_blocks(pool, small, stream))
        listed.emplace_back(allocator_.size(id), allocator_.address(id));
      require(listed == expected, "every free block is listed, in order");
    }
    return problem_;
  }

 private:
  void require(bool holds, const char* what) {
    if (!holds && problem_.empty()) problem_ = what;
  }

  void add(const SegmentView& segment, const std::string& name, std::int64_t amount) {
    sums_[name + "all"] += amount;
    sums_[name + (segment.small ? "small" : "large")] += amount;
  }

  void check_segment(const SegmentView& segment) {
    require(extents_.emplace(segment.address, segment.size).second, "segments have addresses of their own");
    if (!segment.expandable) {
      add(segment, "segment", 1);
      add(segment, "reserved", segment.size);
    }
    Address at = segment.address;
    BlockState previous = BlockState::none;
    for (const auto& block : segment.blocks) {
      require(block.address == at && block.size > 0, "blocks tile their segment");
      require(block.size % kMinBlock == 0, "blocks are multiples of 512");
      at += block.size;
      const bool idle = block.state == BlockState::free || block.state == BlockState::unmapped;
      require(!(idle && block.state == previous), "free neighbours are merged");
      require(segment.expandable || block.state != BlockState::unmapped, "only ranges have unmapped parts");
      previous = block.state;
      check_block(segment, block);
    }
    require(at == segment.address + segment.size, "blocks fill their segment");
  }

  void check_block(const SegmentView& segment, const SegmentView::BlockView& block) {
    if (segment.expandable && block.state != BlockState::unmapped) add(segment, "reserved", block.size);
    if (block.state == BlockState::allocated) {
      add(segment, "allocation", 1);
      add(segment, "allocated", block.size);
      require(allocator_.live(block.id) && allocator_.address(block.id) == block.address,
              "ids name their blocks");
      require(allocator_.segment_offset(block.id) == block.address - segment.address,
              "offsets count from the segment");
    }
    if (block.state == BlockState::allocated || block.state == BlockState::pending) {
      add(segment, "active", 1);
      add(segment, "active_bytes", block.size);
      add(segment, "requested", block.requested);
      require(block.requested > 0 && block.requested <= block.size, "blocks hold what was requested");
    }
    if (block.state == BlockState::free) {
      free_[{segment.pool, segment.small, segment.stream}].emplace_back(block.size, block.address);
      if (!segment.expandable && segment.blocks.size() > 1) {
        add(segment, "split", 1);
        add(segment, "split_bytes", block.size);
      }
    }
  }

  void check_sums(const std::string& pool, const PoolStatistics& stats) {
    const auto equal = [&](const char* name, const Statistic& s) {
      require(s.current == sums_[name + pool], "counters are sums over blocks");
      require(s.peak >= s.current && s.allocated - s.freed <= s.current,
              "peaks are at least the current value");
    };
    equal("allocation", stats.allocation);
    equal("allocated", stats.allocated_bytes);
    equal("active", stats.active);
    equal("active_bytes", stats.active_bytes);
    equal("requested", stats.requested_bytes);
    equal("segment", stats.segment);
    equal("reserved", stats.reserved_bytes);
    equal("split", stats.inactive_split);
    equal("split_bytes", stats.inactive_split_bytes);
  }

  const CachingAllocator& allocator_;
  std::string problem_;
  std::map<std::string, std::int64_t> sums_;
  std::map<std::tuple<PoolId, bool, Stream>, std::vector<std::pair<Bytes, Address>>> free_;
  std::map<Address, Bytes> extents_;
};

inline std::string unsound(const CachingAllocator& allocator) {
  return Soundness(allocator).check();
}

}  // namespace headroom::allocator::test

#include <algorithm>
#include <utility>

#include "simulator/allocator/caching_allocator.h"

namespace headroom::allocator {

void CachingAllocator::empty_cache(PoolId pool) {
  release_all(pool);
}

// Everything unused goes back to the device: the default pool's large half, its small half, then private
// pools without users.
void CachingAllocator::release_all(PoolId pool) {
  if (pool == kDefaultPool) {
    if (scopes_.empty()) {
      wait_for_events(nullptr);
      release_half(default_pool_->halves[kLarge]);
      release_half(default_pool_->halves[kSmall]);
    }
  } else if (const auto found = pools_.find(pool);
             found != pools_.end() && found->second->users == 0 && scopes_.empty()) {
    wait_for_events(found->second.get());
  }
  release_freeable_pools(pool);
}

void CachingAllocator::release_freeable_pools(PoolId only) {
  for (auto it = pools_.begin(); it != pools_.end();) {
    Pool& pool = *(it++)->second;
    if (&pool == default_pool_ || pool.users > 0 || (only != kDefaultPool && pool.id != only)) continue;
    release_half(pool.halves[kSmall]);
    release_half(pool.halves[kLarge]);
    if (pool.segments == 0) drop_pool(pool);
  }
}

// Whole free segments go back in the order of the free blocks; then free parts of expandable ranges.
void CachingAllocator::release_half(Half& half) {
  std::vector<BlockId> whole, expandable;
  for (const FreeList* list : by_handle(half)) {
    for (BlockId id = list->free.first(); id != 0; id = list->free.successor(blocks_.data(), id)) {
      const Block& block = blocks_[id];
      if (block.expandable) {
        expandable.push_back(id);
      } else if (block.previous == 0 && block.next == 0) {
        whole.push_back(id);
      }
    }
  }
  for (const BlockId id : whole) release_segment(id);
  for (const BlockId id : expandable) unmap(id);
}

// Gives back a native segment that is one free block.
void CachingAllocator::release_segment(BlockId id) {
  leave_list(id);
  const Block& block = blocks_[id];
  FreeList& list = list_of(block);
  Half& half = *list.half;
  const Address address = block.address;
  const Bytes size = block.size;
  device_of(*half.pool).free(address, size);
  total_ -= size;
  ++counts_.num_device_free;
  counters_.subtract(half.index, Counters::segment, 1);
  counters_.subtract(half.index, Counters::reserved_bytes, size);
  if (size >= settings_.max_split_size) counts_.oversize_segments.decrease(1);
  if (observer_ != nullptr) observer_->segment_free(address, size, list.stream);
  forget_segment(id);
}

// Drops a segment whose only block is `id`.
void CachingAllocator::forget_segment(BlockId id) {
  const std::uint32_t segment = blocks_[id].segment;
  --half_of(blocks_[id]).pool->segments;
  segments_[segment].used = false;
  unused_segments_.push_back(segment);
  blocks_.give_back(id);
}

// Takes the memory from the whole chunks inside a free block of an expandable range.
void CachingAllocator::unmap(BlockId id) {
  FreeList& list = list_of(blocks_[id]);
  Half& half = *list.half;
  const Segment range = segments_[blocks_[id].segment];
  const Bytes start = blocks_[id].address - range.address;
  const Bytes low = round_up(start, chunk(half));
  const Bytes high = (start + blocks_[id].size) / chunk(half) * chunk(half);
  if (low >= high) return;
  device_.unmap(range.address + low, high - low, chunk(half));

  leave_list(id);
  const Bytes requested = std::exchange(blocks_[id].requested, 0);  // what is cut off forgets its last use
  BlockId middle = id;
  if (low > start) {
    middle = cut(id, low - start);
    insert_free(list, id);
  }
  if (blocks_[middle].size > high - low) insert_free(list, cut(middle, high - low));
  blocks_[middle].requested = requested;
  blocks_[middle].state = BlockState::unmapped;
  middle = merge_neighbours(middle);
  insert_unmapped(list, middle);

  total_ -= high - low;
  ++counts_.num_device_free;
  counters_.subtract(half.index, Counters::reserved_bytes, high - low);
  if (observer_ != nullptr) observer_->segment_unmap(range.address + low, high - low, list.stream);
  if (blocks_[middle].size == range.size) {
    device_.release(range.address, range.size);
    std::erase(list.unmapped, middle);
    forget_segment(middle);
  }
}

// With max_split_size set: gives back one cached block that is large enough, or several, largest first, that
// are together. What was given back stays so when they are not.
bool CachingAllocator::release_available(const Request& request) {
  if (settings_.max_split_size == kUnlimited) return false;
  FreeList& list = *request.list;
  const Bytes wanted = std::max(request.rounded, settings_.max_split_size);
  const Block* blocks = blocks_.data();
  // Parts of split segments can be this large only if the setting was changed at run time.
  const auto whole = [blocks](BlockId id) {
    return !blocks[id].expandable && blocks[id].previous == 0 && blocks[id].next == 0;
  };
  BlockId id = list.free.first_at_least(blocks, wanted);
  if (id != 0 && whole(id)) {
    release_segment(id);
    return true;
  }
  id = id == 0 ? list.free.last(blocks) : list.free.predecessor(blocks, id);
  Bytes released = 0;
  while (id != 0 && released < wanted && blocks[id].size >= settings_.max_split_size) {
    const BlockId smaller = list.free.predecessor(blocks, id);
    if (whole(id)) {
      released += blocks[id].size;
      release_segment(id);
    }
    id = smaller;
  }
  return released >= wanted;
}

// Above the threshold: gives back unused large segments of at least average age until enough is reclaimed.
void CachingAllocator::collect_garbage() {
  const auto threshold =
      static_cast<Bytes>(settings_.garbage_collection_threshold * static_cast<double>(limit_));
  if (total_ <= threshold) return;
  const Bytes target = total_ - threshold;
  Half& half = default_pool_->halves[kLarge];

  std::vector<BlockId> candidates;
  double total_age = 0;
  const auto age = [&](BlockId id) { return static_cast<double>(half.searches - blocks_[id].gc_base); };
  for (const FreeList* list : by_handle(half)) {
    for (BlockId id = list->free.first(); id != 0; id = list->free.successor(blocks_.data(), id)) {
      const Block& block = blocks_[id];
      if (block.expandable || block.previous != 0 || block.next != 0) continue;
      candidates.push_back(id);
      total_age += age(id);
    }
  }
  Bytes reclaimed = 0;
  for (bool released = true; reclaimed < target && released && !candidates.empty();) {
    released = false;
    const double average = total_age / static_cast<double>(candidates.size());
    std::vector<BlockId> kept;
    for (const BlockId id : candidates) {
      if (age(id) < average) {
        kept.push_back(id);
        continue;
      }
      reclaimed += blocks_[id].size;
      total_age -= age(id);
      release_segment(id);
      released = true;
    }
    candidates = std::move(kept);
  }
}

}  // namespace headroom::allocator

#include <algorithm>

#include "simulator/allocator/caching_allocator.h"

namespace headroom::allocator {

// No free block fits: new memory, and what is released to get it, in PyTorch's order. kOutOfMemory: none.
BlockId CachingAllocator::make_room(const Request& request) {
  if (request.expandable && chunk(*request.list->half) % device_.granularity() != 0)
    return refuse_chunk(request);
  if (gc_tracking_) collect_garbage();
  if (const BlockId id = obtain(request, false)) return id;
  if (const BlockId id = take_from_pools_on_oom(request)) return id;
  if (release_available(request)) {
    if (const BlockId id = obtain(request, false)) return id;
  }
  if (!scopes_.empty()) return fail(request);
  release_all(kDefaultPool);
  if (const BlockId id = obtain(request, true)) return id;
  return fail(request);
}

BlockId CachingAllocator::obtain(const Request& request, bool retry) {
  if (retry) ++counts_.num_alloc_retries;
  if (limit_ != kUnlimited && total_ + request.segment > limit_) return 0;
  return request.expandable ? obtain_expandable(request) : obtain_native(request);
}

BlockId CachingAllocator::obtain_native(const Request& request) {
  Half& half = *request.list->half;
  const std::optional<Address> address = device_of(*half.pool).allocate(request.segment);
  if (!address) return 0;
  const BlockId id = new_segment(*request.list, *address, request.segment, false);
  ++half.pool->segments;
  total_ += request.segment;
  ++counts_.num_device_alloc;
  counters_.add(half.index, Counters::segment, 1);
  counters_.add(half.index, Counters::reserved_bytes, request.segment);
  if (request.segment >= settings_.max_split_size) counts_.oversize_segments.increase(1);
  if (observer_ != nullptr) observer_->segment_alloc(*address, request.segment, request.stream);
  return id;
}

// A block that covers a new segment, in no list yet.
BlockId CachingAllocator::new_segment(FreeList& list, Address address, Bytes size, bool expandable) {
  std::uint32_t index;
  if (unused_segments_.empty()) {
    index = static_cast<std::uint32_t>(segments_.size());
    segments_.emplace_back();
  } else {
    index = unused_segments_.back();
    unused_segments_.pop_back();
  }
  const BlockId id = blocks_.take();
  segments_[index] = {.ordinal = next_ordinal_++,
                      .address = address,
                      .size = size,
                      .first = id,
                      .expandable = expandable,
                      .used = true};
  Block& block = blocks_[id];
  block.address = address;
  block.size = size;
  block.requested = 0;
  block.previous = block.next = 0;
  block.segment = index;
  block.list = list.index;
  block.state = expandable ? BlockState::unmapped : BlockState::free;
  block.expandable = expandable;
  block.other_streams = false;
  return id;
}

// The lowest place in the stream's ranges that holds the request once its unmapped parts are mapped.
BlockId CachingAllocator::obtain_expandable(const Request& request) {
  BlockId id = find_expandable(request);
  if (id == 0) id = reserve_range(*request.list);
  if (blocks_[id].state == BlockState::unmapped) {
    id = map(id, std::min(blocks_[id].size, request.rounded));
    if (id == 0) return 0;
  }
  while (blocks_[id].size < request.rounded) {
    const BlockId next = blocks_[id].next;
    if (map(next, std::min(request.rounded - blocks_[id].size, blocks_[next].size)) == 0) return 0;
  }
  leave_list(id);
  return id;
}

BlockId CachingAllocator::find_expandable(const Request& request) {
  for (const BlockId unmapped : request.list->unmapped) {
    const BlockId before = blocks_[unmapped].previous;
    const BlockId candidate = blocks_[before].state == BlockState::free ? before : unmapped;
    Bytes room = 0;
    for (BlockId id = candidate; id != 0; id = blocks_[id].next) {
      const BlockState state = blocks_[id].state;
      if (state != BlockState::free && state != BlockState::unmapped) break;
      room += blocks_[id].size;
      if (room >= request.rounded) return candidate;
    }
  }
  return 0;
}

// A range for as much as the device has and an eighth more, so that holes never make it too short.
BlockId CachingAllocator::reserve_range(FreeList& list) {
  const bool small = list.half->index == kSmall;
  const Bytes total = device_.total_memory();
  const Bytes size = round_up(total + total / 8, chunk(*list.half));
  const BlockId id = new_segment(list, device_.reserve(size, small), size, true);
  ++list.half->pool->segments;
  insert_unmapped(list, id);
  return id;
}

void CachingAllocator::insert_unmapped(FreeList& list, BlockId id) {
  const auto lower = [this](BlockId a, BlockId b) { return blocks_[a].address < blocks_[b].address; };
  list.unmapped.insert(std::lower_bound(list.unmapped.begin(), list.unmapped.end(), id, lower), id);
}

// Maps at least `wanted` bytes at the start of an unmapped block, in whole chunks; the memory is free then.
// Returns the free block that holds them; 0 when the device is out of memory, and nothing has changed.
BlockId CachingAllocator::map(BlockId id, Bytes wanted) {
  FreeList& list = list_of(blocks_[id]);
  Half& half = *list.half;
  const Bytes bytes = round_up(wanted, chunk(half));
  const Address address = blocks_[id].address;
  if (!device_.map(address, bytes, chunk(half))) return 0;
  leave_list(id);
  if (blocks_[id].size > bytes) insert_unmapped(list, cut(id, bytes));
  blocks_[id].state = BlockState::free;
  id = merge_neighbours(id);
  insert_free(list, id);
  total_ += bytes;
  ++counts_.num_device_alloc;
  counters_.add(half.index, Counters::reserved_bytes, bytes);
  if (observer_ != nullptr) observer_->segment_map(address, bytes, list.stream);
  return id;
}

BlockId CachingAllocator::take_from_pools_on_oom(const Request& request) {
  if (request.list->half->pool != default_pool_) return 0;
  for (auto& [pool_id, pool] : pools_) {
    if (!pool->options.use_on_oom) continue;
    FreeList& list = list_for(*pool, request.list->half->index, request.stream);
    if (const BlockId id = find(list, request.rounded, false)) return id;
  }
  return 0;
}

// The driver maps no chunks of this size. PyTorch raises its error at once and counts nothing.
BlockId CachingAllocator::refuse_chunk(const Request& request) {
  last_out_of_memory_ = facts_of(request);
  last_out_of_memory_->refused_chunk = chunk(*request.list->half);
  return kOutOfMemory;
}

// No device has so much: PyTorch does not even try, and counts nothing.
BlockId CachingAllocator::refuse(Bytes bytes, Stream stream) {
  last_out_of_memory_ = facts_of({.bytes = bytes,
                                  .rounded = bytes,
                                  .segment = bytes,
                                  .stream = stream,
                                  .list = nullptr,
                                  .expandable = false});
  return kOutOfMemory;
}

BlockId CachingAllocator::fail(const Request& request) {
  ++counts_.num_ooms;
  last_out_of_memory_ = facts_of(request);
  if (observer_ != nullptr) observer_->out_of_memory(*last_out_of_memory_);
  return kOutOfMemory;
}

OutOfMemory CachingAllocator::facts_of(const Request& request) const {
  OutOfMemory facts{.requested = request.bytes,
                    .rounded = request.rounded,
                    .tried = request.segment,
                    .stream = request.stream,
                    .device = device_.ordinal(),
                    .device_total = device_.total_memory(),
                    .device_free = device_.free_memory(),
                    .process = device_.process_memory(),
                    .limit = limit(),
                    .allocated = allocated(),
                    .reserved = reserved(),
                    .private_pools = 0,
                    .expandable_segments = settings_.expandable_segments,
                    .refused_chunk = 0};
  for (const auto& [pool_id, pool] : pools_) {
    if (pool.get() == default_pool_) continue;
    for (const Half& half : pool->halves) {
      for (const FreeList* list : half.lists) {
        if (list == nullptr) continue;
        for (BlockId id = list->free.first(); id != 0; id = list->free.successor(blocks_.data(), id))
          facts.private_pools += blocks_[id].size;
      }
    }
  }
  return facts;
}

}  // namespace headroom::allocator

#include "simulator/allocator/caching_allocator.h"

#include <cassert>

namespace headroom::allocator {

CachingAllocator::CachingAllocator(const AllocatorSettings& settings, Device& device, Observer* observer)
    : settings_(settings), device_(device), observer_(observer) {
  segments_.emplace_back();  // 0 is none
  default_pool_ = &new_pool(kDefaultPool);
  counts_.max_split_size = settings.max_split_size == kUnlimited ? -1 : settings.max_split_size;
  update_modes();
  if (settings.per_process_memory_fraction) set_memory_fraction(*settings.per_process_memory_fraction);
}

CachingAllocator::~CachingAllocator() = default;

BlockId CachingAllocator::allocate(Bytes bytes, Stream stream) {
  assert(bytes >= 0);
  if (bytes == 0) [[unlikely]]
    return kNullBlock;
  if (bytes >= kMaxRequest) [[unlikely]]
    return refuse(bytes, stream);
  if (events_pending_ && scopes_.empty()) [[unlikely]]
    process_events();

  const Bytes rounded =
      plain_rounding_ ? (bytes + kMinBlock - 1) & ~(kMinBlock - 1) : round_request(settings_, bytes);
  const HalfIndex half = rounded <= kSmallMax ? kSmall : kLarge;
  FreeList& list = scopes_.empty() && stream < kNearStreams && near_lists_[half][stream] != nullptr
                       ? *near_lists_[half][stream]
                       : list_for(pool_for(stream), half, stream);
  bool expandable = expandable_ && list.may_expand;

  BlockId id = search(list, rounded, expandable);
  if (id == 0) [[unlikely]] {
    const Request request{.bytes = bytes,
                          .rounded = rounded,
                          .segment = segment_size(settings_, rounded),
                          .stream = stream,
                          .list = &list,
                          .expandable = expandable};
    id = make_room(request);
    if (id == kOutOfMemory) return id;
    if (&list_of(blocks_[id]) != &list) expandable = false;  // a pool's that lends: split as native blocks are
  }
  return commit(list_of(blocks_[id]), id, rounded, bytes, expandable);
}

// Best fit: the smallest block that is large enough, lowest address among equals, taken out of the free
// blocks.
[[gnu::always_inline]] inline BlockId CachingAllocator::search(FreeList& list, Bytes rounded,
                                                               bool expandable) {
  if (gc_tracking_) ++list.half->searches;
  Block* blocks = blocks_.data();
  BlockId id = list.free.first_at_least(blocks, rounded);
  if (id == 0) [[unlikely]]
    return 0;
  if (blocks[id].expandable) [[unlikely]]
    id = expandable ? prefer_bounded(list, id) : skip_expandable(list, id);
  if (id == 0) [[unlikely]]
    return 0;
  // A block that may not be split is only for requests about as large.
  const Bytes size = blocks[id].size;
  if (size >= max_split_size_) [[unlikely]] {
    if (rounded < max_split_size_) return 0;
    if (size - rounded >= settings_.max_non_split_rounding) return 0;
  }
  if (tie_breaker_ != nullptr) [[unlikely]]
    id = break_tie(list, id);
  list.free.erase(blocks, id);
  return id;
}

BlockId CachingAllocator::find(FreeList& list, Bytes rounded, bool expandable) {
  return search(list, rounded, expandable);
}

// Splits the block where the rules say so and hands its front out.
[[gnu::always_inline]] inline BlockId CachingAllocator::commit(FreeList& list, BlockId id, Bytes rounded,
                                                               Bytes bytes, bool expandable) {
  const int half = list.half_index;
  const Block& found = blocks_[id];
  const Bytes rest = found.size - rounded;
  const bool was_split = (found.previous | found.next) != 0;
  const bool native = !found.expandable;
  const bool fine = half == kSmall || expandable;
  bool split = fine ? rest >= kMinBlock : rest > kSmallMax && rounded < max_split_size_;
  split = split && !list.no_split;
  if (split) insert_free(list, split_off(id, rounded));
  // Parts of a split segment: the block was one, and the rest is one.
  const int parts = (split ? 1 : 0) - (was_split ? 1 : 0);
  const Bytes part_bytes = (split ? rest : 0) - (was_split ? rounded + rest : 0);
  counters_.change(half, Counters::inactive_split, native ? parts : 0);
  counters_.change(half, Counters::inactive_split_bytes, native ? part_bytes : 0);
  Block& block = blocks_[id];
  block.state = BlockState::allocated;
  block.requested = bytes;
  counters_.allocate(half, block.size, bytes);
  if (block.size >= max_split_size_) [[unlikely]]
    counts_.oversize_allocations.increase(1);
  if (observer_ != nullptr) [[unlikely]]
    observer_->alloc(id, block.address, bytes, list.stream);
  return id;
}

// Shortens a block to `bytes`; the rest becomes a block of its own, of the same state and in no list.
[[gnu::always_inline]] inline BlockId CachingAllocator::split_off(BlockId id, Bytes bytes) {
  const BlockId rest_id = blocks_.take();
  Block& block = blocks_[id];
  Block& rest = blocks_[rest_id];
  rest.address = block.address + bytes;
  rest.size = block.size - bytes;
  rest.requested = block.requested;
  rest.previous = id;
  rest.next = block.next;
  rest.segment = block.segment;
  rest.list = block.list;
  rest.state = block.state;
  rest.expandable = block.expandable;
  rest.other_streams = false;
  if (block.next != 0) blocks_[block.next].previous = rest_id;
  block.next = rest_id;
  block.size = bytes;
  return rest_id;
}

BlockId CachingAllocator::cut(BlockId id, Bytes bytes) {
  return split_off(id, bytes);
}

void CachingAllocator::free(BlockId id) {
  if (id == kNullBlock) [[unlikely]]
    return;
  Block& block = blocks_[id];
  assert(block.state == BlockState::allocated);
  FreeList& list = list_of(block);
  if (block.size >= max_split_size_) [[unlikely]]
    counts_.oversize_allocations.decrease(1);
  if (observer_ != nullptr) [[unlikely]]
    observer_->free_requested(id, block.address, block.requested, list.stream);
  if (block.other_streams) [[unlikely]]
    return free_later(id);
  counters_.free(list.half_index, block.size);
  become_free(list, id);
}

// The block becomes free: merged with its free neighbours and put in order.
[[gnu::always_inline]] inline void CachingAllocator::become_free(FreeList& list, BlockId id) {
  Block* blocks = blocks_.data();
  Block& block = blocks[id];
  const int half = list.half_index;
  const Bytes size = block.size;
  if (observer_ != nullptr) [[unlikely]]
    observer_->free_completed(id, block.address, block.requested, list.stream);
  counters_.deactivate(half, size, block.requested);
  const bool native = !block.expandable;

  block.state = BlockState::free;
  const Merged merged = merge_free(list, id);
  const Block& survivor = blocks[merged.id];
  const bool split = (survivor.previous | survivor.next) != 0;
  const int parts = (split ? 1 : 0) - merged.merges;
  const Bytes part_bytes = (split ? survivor.size : 0) - (survivor.size - size);
  counters_.change(half, Counters::inactive_split, native ? parts : 0);
  counters_.change(half, Counters::inactive_split_bytes, native ? part_bytes : 0);
  insert_free(list, merged.id);
}

void CachingAllocator::complete(BlockId id) {
  become_free(list_of(blocks_[id]), id);
}

// Joins a free block, in no list, with its free neighbours. The lowest block's id survives.
[[gnu::always_inline]] inline CachingAllocator::Merged CachingAllocator::merge_free(FreeList& list,
                                                                                    BlockId id) {
  Block* blocks = blocks_.data();
  int merges = 0;
  if (const BlockId after = blocks[id].next; blocks[after].state == BlockState::free) {
    list.free.erase(blocks, after);
    absorb_next(blocks, id);
    ++merges;
  }
  if (const BlockId before = blocks[id].previous; blocks[before].state == BlockState::free) {
    list.free.erase(blocks, before);
    blocks[before].requested = blocks[id].requested;
    absorb_next(blocks, before);
    id = before;
    ++merges;
  }
  return {id, merges};
}

[[gnu::always_inline]] inline void CachingAllocator::absorb_next(Block* blocks, BlockId id) {
  Block& block = blocks[id];
  const BlockId absorbed = block.next;
  const BlockId next = blocks[absorbed].next;
  block.size += blocks[absorbed].size;
  block.next = next;
  if (next != 0) blocks[next].previous = id;
  blocks_.give_back(absorbed);
}

// The same for blocks of any state that has a list.
BlockId CachingAllocator::merge_neighbours(BlockId id) {
  Block* blocks = blocks_.data();
  const BlockState state = blocks[id].state;
  if (const BlockId after = blocks[id].next; blocks[after].state == state) {
    leave_list(after);
    absorb_next(blocks, id);
  }
  if (const BlockId before = blocks[id].previous; blocks[before].state == state) {
    leave_list(before);
    blocks[before].requested = blocks[id].requested;
    absorb_next(blocks, before);
    id = before;
  }
  return id;
}

MemoryStatistics CachingAllocator::statistics() const {
  MemoryStatistics statistics = counts_;
  statistics.all = counters_.all();
  statistics.small_pool = counters_.pool(kSmall);
  statistics.large_pool = counters_.pool(kLarge);
  return statistics;
}

void CachingAllocator::reset_peak() {
  counters_.reset_peak();
  for (Statistic* s : {&counts_.oversize_allocations, &counts_.oversize_segments}) s->peak = s->current;
}

void CachingAllocator::reset_accumulated() {
  counters_.reset_accumulated();
  for (Statistic* s : {&counts_.oversize_allocations, &counts_.oversize_segments})
    s->allocated = s->freed = 0;
  counts_.num_alloc_retries = counts_.num_ooms = counts_.num_sync_all_streams = 0;
  counts_.num_device_alloc = counts_.num_device_free = 0;
}

}  // namespace headroom::allocator

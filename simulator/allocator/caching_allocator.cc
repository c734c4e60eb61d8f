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
  if (bytes == 0) return kNullBlock;
  if (events_pending_ && scopes_.empty()) [[unlikely]]
    process_events();

  Request request{
      .bytes = bytes, .rounded = 0, .segment = 0, .stream = stream, .list = nullptr, .expandable = false};
  if (bytes >= kMaxRequest) [[unlikely]] {
    request.rounded = request.segment = bytes;
    return fail(request);
  }
  request.rounded =
      plain_rounding_ ? (bytes + kMinBlock - 1) & ~(kMinBlock - 1) : round_request(settings_, bytes);
  const HalfIndex half = request.rounded <= kSmallMax ? kSmall : kLarge;
  Pool& pool = scopes_.empty() ? *default_pool_ : pool_for(stream);
  request.list = &list_for(pool, half, stream);
  request.expandable = settings_.expandable_segments && pool.options.device == nullptr;

  BlockId id = find(*request.list, request.rounded, request.expandable);
  if (id == 0) [[unlikely]] {
    request.segment = segment_size(settings_, request.rounded);
    id = make_room(request);
    if (id == 0) return fail(request);
  }
  return commit(id, request);
}

// Best fit: the smallest block that is large enough, lowest address among equals, taken out of the free
// blocks.
BlockId CachingAllocator::find(FreeList& list, Bytes rounded, bool expandable) {
  list.half->searches += gc_tracking_ ? 1 : 0;
  const Block* blocks = blocks_.data();
  BlockId id = list.free.first_at_least(blocks, rounded);
  if (id == 0) return 0;
  if (blocks[id].expandable) id = expandable ? prefer_bounded(list, id) : skip_expandable(list, id);
  if (id == 0) return 0;
  // A block that may not be split is only for requests about as large.
  const Bytes size = blocks[id].size;
  if (size >= settings_.max_split_size) [[unlikely]] {
    if (rounded < settings_.max_split_size) return 0;
    if (size - rounded >= settings_.max_non_split_rounding) return 0;
  }
  if (tie_breaker_ != nullptr) [[unlikely]]
    id = break_tie(list, id);
  list.free.erase(blocks_.data(), id);
  return id;
}

// Splits the block where the rules say so and hands its front out.
BlockId CachingAllocator::commit(BlockId id, const Request& request) {
  const FreeList& list = list_of(blocks_[id]);
  const int half = list.half->index;
  const Bytes rest = blocks_[id].size - request.rounded;
  const bool was_split = (blocks_[id].previous | blocks_[id].next) != 0;
  const bool fine = half == kSmall || request.expandable;
  const bool split =
      (fine ? rest >= kMinBlock : rest > kSmallMax && request.rounded < settings_.max_split_size) &&
      !list.half->pool->options.no_split;
  if (split) {
    const BlockId rest_id = blocks_.take();
    Block& block = blocks_[id];
    Block& remainder = blocks_[rest_id];
    remainder.address = block.address + request.rounded;
    remainder.size = rest;
    remainder.requested = block.requested;
    remainder.previous = id;
    remainder.next = block.next;
    remainder.segment = block.segment;
    remainder.list = block.list;
    remainder.expandable = block.expandable;
    remainder.other_streams = false;
    if (block.next != 0) blocks_[block.next].previous = rest_id;
    block.next = rest_id;
    block.size = request.rounded;
    insert_free(*lists_[block.list], rest_id);
  }
  Block& block = blocks_[id];
  block.state = BlockState::allocated;
  block.requested = request.bytes;
  if (!block.expandable) {
    if (split) {
      counters_.change(half, Counters::inactive_split, was_split ? 0 : 1);
      counters_.change(half, Counters::inactive_split_bytes, was_split ? -request.rounded : rest);
    } else if (was_split) {
      counters_.subtract(half, Counters::inactive_split, 1);
      counters_.subtract(half, Counters::inactive_split_bytes, block.size);
    }
  }
  counters_.add(half, Counters::allocation, 1);
  counters_.add(half, Counters::allocated_bytes, block.size);
  counters_.add(half, Counters::active, 1);
  counters_.add(half, Counters::active_bytes, block.size);
  counters_.add(half, Counters::requested_bytes, request.bytes);
  if (block.size >= settings_.max_split_size) [[unlikely]]
    counts_.oversize_allocations.increase(1);
  if (observer_ != nullptr) [[unlikely]]
    observer_->alloc(id, block.address, request.bytes, list.stream);
  return id;
}

void CachingAllocator::free(BlockId id) {
  if (id == kNullBlock) return;
  Block& block = blocks_[id];
  assert(block.state == BlockState::allocated);
  const FreeList& list = list_of(block);
  counters_.subtract(list.half->index, Counters::allocation, 1);
  counters_.subtract(list.half->index, Counters::allocated_bytes, block.size);
  if (block.size >= settings_.max_split_size) [[unlikely]]
    counts_.oversize_allocations.decrease(1);
  if (observer_ != nullptr) [[unlikely]]
    observer_->free_requested(id, block.address, block.requested, list.stream);
  if (block.other_streams) [[unlikely]] {
    block.state = BlockState::pending;
    events_pending_ = true;
    if (scopes_.empty()) {
      queue_events(id);
    } else {
      deferred_.push_back(id);
    }
    return;
  }
  complete(id);
}

// The block becomes free: merged with its free neighbours and put in order.
void CachingAllocator::complete(BlockId id) {
  Block* blocks = blocks_.data();
  Block& block = blocks[id];
  FreeList& list = list_of(block);
  const int half = list.half->index;
  const Bytes size = block.size;
  if (observer_ != nullptr) [[unlikely]]
    observer_->free_completed(id, block.address, block.requested, list.stream);
  counters_.subtract(half, Counters::active, 1);
  counters_.subtract(half, Counters::active_bytes, size);
  counters_.subtract(half, Counters::requested_bytes, block.requested);

  block.state = BlockState::free;
  const Merged merged = merge_neighbours(id);
  const Block& survivor = blocks[merged.id];
  if (!survivor.expandable) {
    const bool split = (survivor.previous | survivor.next) != 0;
    counters_.change(half, Counters::inactive_split, (split ? 1 : 0) - merged.merges);
    counters_.change(half, Counters::inactive_split_bytes,
                     (split ? survivor.size : 0) - (survivor.size - size));
  }
  insert_free(list, merged.id);
}

// Joins a block, in no list, with neighbours of its state. The lowest block's id survives.
CachingAllocator::Merged CachingAllocator::merge_neighbours(BlockId id) {
  Block* blocks = blocks_.data();
  int merges = 0;
  const BlockState state = blocks[id].state;
  if (const BlockId before = blocks[id].previous; blocks[before].state == state) {
    leave_list(before);
    blocks[before].size += blocks[id].size;
    blocks[before].requested = blocks[id].requested;
    blocks[before].next = blocks[id].next;
    if (blocks[id].next != 0) blocks[blocks[id].next].previous = before;
    blocks_.give_back(id);
    id = before;
    ++merges;
  }
  if (const BlockId after = blocks[id].next; blocks[after].state == state) {
    leave_list(after);
    blocks[id].size += blocks[after].size;
    blocks[id].next = blocks[after].next;
    if (blocks[after].next != 0) blocks[blocks[after].next].previous = id;
    blocks_.give_back(after);
    ++merges;
  }
  return {id, merges};
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

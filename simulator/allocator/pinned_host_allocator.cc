#include "simulator/allocator/pinned_host_allocator.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace headroom::allocator {

// Sizes that were not rounded share the list of their power with others; each serves only its own size.
std::vector<PinnedBlockId>& PinnedHostAllocator::cached(Bytes size) {
  return cached_[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(size))) - 1];
}

PinnedBlockId PinnedHostAllocator::allocate(Bytes bytes) {
  assert(bytes >= 0);
  if (bytes == 0) return kNullPinnedBlock;
  if (bytes > kMaxRequest) return kOutOfHostMemory;
  process_events();
  const Bytes size = round_pinned(settings_, bytes);
  std::vector<PinnedBlockId>& list = cached(size);
  const auto found =
      std::find_if(list.rbegin(), list.rend(), [&](PinnedBlockId id) { return blocks_[id].size == size; });
  PinnedBlockId id;
  if (found != list.rend()) {
    id = *found;
    list.erase(std::next(found).base());
  } else {
    Block block;
    block.size = size;
    if (!take_from_reserve(block)) {
      const auto address = host_.allocate(size);
      if (!address) return kOutOfHostMemory;
      block.address = *address;
      ++statistics_.num_host_alloc;
    }
    statistics_.allocations.increase(1);
    statistics_.allocated_bytes.increase(size);
    if (unused_.empty()) {
      id = static_cast<PinnedBlockId>(blocks_.size());
      blocks_.emplace_back();
    } else {
      id = unused_.back();
      unused_.pop_back();
    }
    blocks_[id] = std::move(block);
  }
  statistics_.active_requests.increase(1);
  statistics_.active_bytes.increase(size);
  return id;
}

// The reserve is taken whole at the first request and handed out from its start.
bool PinnedHostAllocator::take_from_reserve(Block& block) {
  if (settings_.pinned_reserve_segment_size == 0) return false;
  if (reserve_left_ < 0) {
    const auto address = host_.allocate(settings_.pinned_reserve_segment_size);
    reserve_left_ = address ? settings_.pinned_reserve_segment_size : 0;
    reserve_ = address.value_or(0);
  }
  if (block.size > reserve_left_) return false;
  block.address = reserve_;
  block.reserved = true;
  reserve_ += block.size;
  reserve_left_ -= block.size;
  return true;
}

void PinnedHostAllocator::record_stream(PinnedBlockId id, Stream stream) {
  if (id == kNullPinnedBlock) return;
  std::vector<Stream>& streams = blocks_[id].streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

void PinnedHostAllocator::free(PinnedBlockId id) {
  if (id == kNullPinnedBlock) return;
  Block& block = blocks_[id];
  for (const Stream stream : block.streams) pending_.emplace_back(events_.record_event(stream), id);
  block.events = static_cast<int>(block.streams.size());
  block.streams.clear();
  if (block.events == 0) keep(id);
}

// Oldest first; one that is not done holds up all behind it.
void PinnedHostAllocator::process_events() {
  while (!pending_.empty() && events_.event_done(pending_.front().first)) {
    const PinnedBlockId id = pending_.front().second;
    pending_.pop_front();
    if (--blocks_[id].events == 0) keep(id);
  }
}

void PinnedHostAllocator::keep(PinnedBlockId id) {
  const Block& block = blocks_[id];
  statistics_.active_requests.decrease(1);
  statistics_.active_bytes.decrease(block.size);
  if (block.size > settings_.pinned_max_cached_size && !block.reserved) {
    give_back(id);
  } else {
    cached(block.size).push_back(id);
  }
}

void PinnedHostAllocator::give_back(PinnedBlockId id) {
  const Block& block = blocks_[id];
  host_.free(block.address, block.size);
  ++statistics_.num_host_free;
  statistics_.allocations.decrease(1);
  statistics_.allocated_bytes.decrease(block.size);
  unused_.push_back(id);
}

void PinnedHostAllocator::empty_cache() {
  process_events();
  for (std::vector<PinnedBlockId>& list : cached_) {
    std::vector<PinnedBlockId> kept;
    for (const PinnedBlockId id : list) {
      if (blocks_[id].reserved) {
        kept.push_back(id);
      } else {
        give_back(id);
      }
    }
    list = std::move(kept);
  }
}

void PinnedHostAllocator::reset_peak() {
  for (Statistic* s : {&statistics_.allocations, &statistics_.allocated_bytes, &statistics_.active_requests,
                       &statistics_.active_bytes})
    s->peak = s->current;
}

}  // namespace headroom::allocator

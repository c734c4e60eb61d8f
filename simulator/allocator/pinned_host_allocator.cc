#include "simulator/allocator/pinned_host_allocator.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace headroom::allocator {

PinnedHostAllocator::Bucket& PinnedHostAllocator::bucket(Bytes size) {
  return buckets_[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(size) - 1))];
}

PinnedBlockId PinnedHostAllocator::allocate(Bytes bytes) {
  assert(bytes >= 0);
  if (bytes == 0) return kNullPinnedBlock;
  if (bytes > kMaxRequest) return kOutOfHostMemory;
  process_events();
  const Bytes size = round_pinned(settings_, bytes);
  Bucket& bucket = this->bucket(size);
  // Sizes that were not rounded share a bucket; each serves only its own size.
  std::vector<PinnedBlockId>& cached = bucket.cached;
  const auto found = std::find_if(cached.rbegin(), cached.rend(),
                                  [&](PinnedBlockId id) { return blocks_[id].size == size; });
  PinnedBlockId id;
  if (found != cached.rend()) {
    id = *found;
    cached.erase(std::next(found).base());
  } else {
    id = new_block(size);
    if (id == kOutOfHostMemory) return id;
  }
  bucket.active_requests.increase(1);
  bucket.active_bytes.increase(size);
  in_use_ += size;
  return id;
}

PinnedBlockId PinnedHostAllocator::new_block(Bytes size) {
  Block block;
  block.size = size;
  if (!take_from_reserve(block)) {
    const auto address = take_from_host(size);
    if (!address) return kOutOfHostMemory;
    block.address = *address;
  }
  allocations_.increase(1);
  allocated_bytes_.increase(size);
  PinnedBlockId id;
  if (unused_.empty()) {
    id = static_cast<PinnedBlockId>(blocks_.size());
    blocks_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  blocks_[id] = std::move(block);
  return id;
}

std::optional<Address> PinnedHostAllocator::take_from_host(Bytes bytes) {
  const auto address = host_.allocate(bytes);
  if (!address) return address;
  held_ += bytes;
  return address;
}

bool PinnedHostAllocator::take_from_reserve(Block& block) {
  if (settings_.pinned_reserve_segment_size == 0) return false;
  if (reserve_left_ < 0) {
    const auto address = take_from_host(settings_.pinned_reserve_segment_size);
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
    if (--blocks_[id].events > 0) continue;
    Bucket& bucket = this->bucket(blocks_[id].size);
    bucket.active_requests.decrease(1);
    bucket.active_bytes.decrease(-1);  // PyTorch's own mark for "all sizes", counted as the size
    keep(id);
  }
}

void PinnedHostAllocator::keep(PinnedBlockId id) {
  const Block& block = blocks_[id];
  in_use_ -= block.size;
  if (block.size > settings_.pinned_max_cached_size && !block.reserved) {
    give_back(id);
  } else {
    bucket(block.size).cached.push_back(id);
  }
}

void PinnedHostAllocator::give_back(PinnedBlockId id) {
  const Block& block = blocks_[id];
  if (!block.reserved) {
    host_.free(block.address, block.size);
    held_ -= block.size;
  }
  allocations_.decrease(1);
  allocated_bytes_.decrease(block.size);
  unused_.push_back(id);
}

void PinnedHostAllocator::empty_cache() {
  process_events();
  for (Bucket& bucket : buckets_) {
    for (const PinnedBlockId id : bucket.cached) give_back(id);
    bucket.cached.clear();
  }
}

PinnedStatistics PinnedHostAllocator::statistics() const {
  PinnedStatistics out{.allocations = allocations_,
                       .allocated_bytes = allocated_bytes_,
                       .active_requests = {},
                       .active_bytes = {},
                       .num_host_alloc = allocations_.allocated,
                       .num_host_free = allocations_.freed};
  const auto add = [](Statistic& sum, const Statistic& s) {
    sum.current += s.current;
    sum.peak += s.peak;
    sum.allocated += s.allocated;
    sum.freed += s.freed;
  };
  for (const Bucket& bucket : buckets_) {
    add(out.active_requests, bucket.active_requests);
    add(out.active_bytes, bucket.active_bytes);
  }
  return out;
}

void PinnedHostAllocator::reset_peak() {
  for (Statistic* s : {&allocations_, &allocated_bytes_}) s->peak = s->current;
  for (Bucket& bucket : buckets_)
    for (Statistic* s : {&bucket.active_requests, &bucket.active_bytes}) s->peak = s->current;
}

}  // namespace headroom::allocator

#include "simulator/memory/simulated_memory.h"

#include <algorithm>

namespace headroom {

Block SimulatedMemory::allocate(Bytes requested, Stream stream, Label label) {
  if (failed_ || requested == 0) return kNoBlock;
  if (watcher_ != nullptr) watcher_->allocating(label);
  const allocator::BlockId id = allocator_.allocate(requested, stream);
  if (id == allocator::kOutOfMemory) [[unlikely]] {
    failed_ = true;
    repeated_.spoil();
    return kNoBlock;
  }
  if (id >= labels_.size()) {
    labels_.resize(std::max<std::size_t>(id + 1u, 2 * labels_.size()));
    is_live_.resize(labels_.size());
  }
  labels_[id] = label;
  is_live_[id] = true;
  live_[label.component] += allocator_.size(id);
  const Bytes allocated = allocator_.allocated();
  ++allocations_;
  if (allocated > peak_) {
    peak_ = allocated;
    at_peak_ = live_;
    if (allocated > highest_) {
      highest_ = allocated;
      highest_at_ = allocations_;
    }
  }
  if (repeated_.watching()) [[unlikely]]
    repeated_.allocated(id, live_);
  if (allocations_ == watched_) [[unlikely]]
    for (allocator::BlockId block = 0; block < labels_.size(); ++block)
      if (is_live_[block]) holdings_.push_back({labels_[block], allocator_.size(block)});
  if (watcher_ != nullptr) watcher_->changed();
  return static_cast<Block>(id);
}

void SimulatedMemory::free(Block block) {
  if (block == kNoBlock || failed_) return;
  const auto id = static_cast<allocator::BlockId>(block);
  is_live_[id] = false;
  live_[labels_[id].component] -= allocator_.size(id);
  if (repeated_.watching()) [[unlikely]]
    repeated_.freed(id);
  allocator_.free(id);
  if (watcher_ != nullptr) watcher_->changed();
}

void SimulatedMemory::record_stream(Block block, Stream stream) {
  repeated_.spoil();
  if (block != kNoBlock && !failed_) allocator_.record_stream(static_cast<allocator::BlockId>(block), stream);
}

void SimulatedMemory::relabel(Block block, Label label) {
  if (block == kNoBlock || failed_) return;
  const auto id = static_cast<allocator::BlockId>(block);
  if (watcher_ != nullptr) watcher_->relabelling(id);
  const Bytes bytes = allocator_.size(id);
  live_[labels_[id].component] -= bytes;
  live_[label.component] += bytes;
  labels_[id] = label;
  repeated_.spoil();
}

HostBlock SimulatedMemory::allocate_host(Bytes requested, HostKind kind, Component component) {
  if (requested == 0) return kNoHostBlock;
  HostEntry entry{kNoHostBlock, requested, component, true};
  if (kind == HostKind::pinned)
    entry.pinned = pinned_.allocate(requested, component);
  else
    pageable_[component] += requested;
  std::uint32_t at = static_cast<std::uint32_t>(host_entries_.size());
  if (unused_host_.empty()) {
    host_entries_.push_back(entry);
  } else {
    at = unused_host_.back();
    unused_host_.pop_back();
    host_entries_[at] = entry;
  }
  rise_host();
  return static_cast<HostBlock>(at);
}

void SimulatedMemory::free_host(HostBlock block) {
  if (block == kNoHostBlock) return;
  HostEntry& entry = host_entries_[static_cast<std::uint32_t>(block)];
  if (entry.pinned != kNoHostBlock)
    pinned_.free(entry.pinned);
  else
    pageable_[entry.component] -= entry.bytes;
  entry.used = false;
  unused_host_.push_back(static_cast<std::uint32_t>(block));
}

void SimulatedMemory::apply(std::size_t index) {
  if (failed_) return;
  if (!repeated_.holds()) left_out_wrongly_ = true;
  const RepeatedSegments::Segment& segment = repeated_.segments()[index];
  const Bytes top = allocator_.allocated() + segment.highest;
  if (top > peak_) {
    peak_ = top;
    at_peak_ = live_ + segment.at_highest;
    if (top > highest_) {
      highest_ = top;
      highest_at_ = allocations_ + segment.highest_at;
    }
  }
  allocator_.apply_small(segment.counters);
  live_ += segment.change;
  allocations_ += segment.allocations;
  if (watcher_ != nullptr) watcher_->changed();
}

void SimulatedMemory::empty_cache() {
  repeated_.spoil();
  if (failed_) return;
  allocator_.empty_cache();
  if (watcher_ != nullptr) watcher_->changed();
}

Breakdown SimulatedMemory::host() const {
  return pageable_ + pinned_.breakdown();
}

void SimulatedMemory::rise_host() {
  const Bytes total = pageable_.total() + pinned_.reserved();
  if (total <= host_peak_) return;
  host_peak_ = total;
  host_at_peak_ = host();
}

void SimulatedMemory::reset_peaks() {
  allocator_.reset_peak();
  peak_ = allocator_.allocated();
  at_peak_ = live_;
  host_at_peak_ = host();
  host_peak_ = host_at_peak_.total();
}

std::optional<std::string> SimulatedMemory::out_of_memory() const {
  if (!failed_ || !allocator_.out_of_memory()) return std::nullopt;
  return allocator_.out_of_memory()->message();
}

}  // namespace headroom

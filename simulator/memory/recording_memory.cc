#include "simulator/memory/recording_memory.h"

namespace headroom {

Block RecordingMemory::allocate(Bytes requested, Stream stream, Label label) {
  if (requested == 0) return kNoBlock;
  Entry entry{next_id_, requested, kNoBlock};
  if (before_) before_(label);
  if (inner_ != nullptr) entry.inner = inner_->allocate(requested, stream, label);
  ++next_id_;
  events_.push_back({MemoryEvent::Kind::allocate, stream, entry.id, requested, label});
  live_ += requested;
  std::uint32_t at = static_cast<std::uint32_t>(entries_.size());
  if (unused_.empty()) {
    entries_.push_back(entry);
  } else {
    at = unused_.back();
    unused_.pop_back();
    entries_[at] = entry;
  }
  return static_cast<Block>(at);
}

void RecordingMemory::free(Block block) {
  if (block == kNoBlock) return;
  const Entry& entry = entries_[static_cast<std::uint32_t>(block)];
  events_.push_back({MemoryEvent::Kind::free, 0, entry.id, 0, {}});
  live_ -= entry.bytes;
  freeing_ = entry.id;
  if (inner_ != nullptr) inner_->free(entry.inner);
  freeing_ = kNone;
  unused_.push_back(static_cast<std::uint32_t>(block));
}

void RecordingMemory::record_stream(Block block, Stream stream) {
  if (block == kNoBlock) return;
  const Entry& entry = entries_[static_cast<std::uint32_t>(block)];
  events_.push_back({MemoryEvent::Kind::record_stream, stream, entry.id, 0, {}});
  if (inner_ != nullptr) inner_->record_stream(entry.inner, stream);
}

void RecordingMemory::relabel(Block block, Label label) {
  if (block != kNoBlock && inner_ != nullptr)
    inner_->relabel(entries_[static_cast<std::uint32_t>(block)].inner, label);
}

HostBlock RecordingMemory::allocate_host(Bytes requested, HostKind kind, Component component) {
  return inner_ != nullptr ? inner_->allocate_host(requested, kind, component)
                           : static_cast<HostBlock>(hosts_++);
}

void RecordingMemory::free_host(HostBlock block) {
  if (inner_ != nullptr) inner_->free_host(block);
}

void RecordingMemory::empty_cache() {
  events_.push_back({MemoryEvent::Kind::empty_cache, 0, 0, 0, {}});
  if (inner_ != nullptr) inner_->empty_cache();
}

void RecordingMemory::synchronize() {
  if (inner_ != nullptr) inner_->synchronize();
}

}  // namespace headroom

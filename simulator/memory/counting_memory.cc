#include "simulator/memory/counting_memory.h"

#include <algorithm>
#include <utility>

#include "simulator/allocator/settings.h"

namespace headroom {
namespace {

constexpr std::uint32_t kNone = 0xffffffffu;

Bytes host_bytes(Bytes requested, HostKind kind) {
  if (kind == HostKind::pageable || requested <= 0) return requested;
  return allocator::round_pinned({}, requested);
}

}  // namespace

Block CountingMemory::allocate(Bytes requested, Stream, Label label) {
  if (requested <= 0) return kNoBlock;
  const Bytes bytes = round_up(requested, allocator::kMinBlock);
  std::uint32_t index = first_free_;
  if (index == kNone) {
    index = static_cast<std::uint32_t>(blocks_.size());
    blocks_.emplace_back();
  } else {
    first_free_ = blocks_[index].next_free;
  }
  blocks_[index] = {.bytes = bytes, .label = label};
  ++allocations_;
  if (moments_wanted_ && label.module != last_.module) {
    moments_.push_back({std::exchange(moment_, live_), last_.module, last_.operation});
    last_ = label;
  }
  rise(bytes, label.component);
  return Block{index};
}

void CountingMemory::rise(Bytes bytes, Component component) {
  live_ += bytes;
  components_[component] += bytes;
  moment_ = std::max(moment_, live_);
  if (live_ > peak_) {
    peak_ = live_;
    at_peak_ = components_;
  }
  reserved_ = std::max(reserved_, live_);
  reserved_peak_ = std::max(reserved_peak_, reserved_);
}

void CountingMemory::free(Block block) {
  if (block == kNoBlock) return;
  Held& held = blocks_[static_cast<std::uint32_t>(block)];
  live_ -= held.bytes;
  components_[held.label.component] -= held.bytes;
  held.next_free = std::exchange(first_free_, static_cast<std::uint32_t>(block));
}

void CountingMemory::relabel(Block block, Label label) {
  if (block == kNoBlock) return;
  Held& held = blocks_[static_cast<std::uint32_t>(block)];
  components_[held.label.component] -= held.bytes;
  components_[label.component] += held.bytes;
  held.label = label;
}

HostBlock CountingMemory::allocate_host(Bytes requested, HostKind kind, Component component) {
  if (requested <= 0) return kNoHostBlock;
  const Bytes bytes = host_bytes(requested, kind);
  host_blocks_.push_back({.bytes = bytes, .label = {.component = component}});
  host_live_ += bytes;
  host_components_[component] += bytes;
  if (host_live_ > host_peak_) {
    host_peak_ = host_live_;
    host_at_peak_ = host_components_;
  }
  return HostBlock{static_cast<std::uint32_t>(host_blocks_.size() - 1)};
}

void CountingMemory::free_host(HostBlock block) {
  if (block == kNoHostBlock) return;
  Held& held = host_blocks_[static_cast<std::uint32_t>(block)];
  host_components_[held.label.component] -= held.bytes;
  host_live_ -= std::exchange(held.bytes, 0);
}

void CountingMemory::run(const Operation& operation) {
  if (!moments_wanted_) return;
  last_ = operation.label;
  moments_.push_back({std::exchange(moment_, live_), last_.module, last_.operation});
}

void CountingMemory::reset_peak() {
  peak_ = live_;
  at_peak_ = components_;
  reserved_peak_ = reserved_;
  host_peak_ = host_live_;
  host_at_peak_ = host_components_;
}

std::vector<CountingMemory::Moment> CountingMemory::take_moments() {
  moments_.push_back({std::exchange(moment_, live_), 0, 0});
  return std::exchange(moments_, {});
}

}  // namespace headroom

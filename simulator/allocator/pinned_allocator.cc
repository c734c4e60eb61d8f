#include "simulator/allocator/pinned_allocator.h"

#include <bit>

namespace headroom {

HostBlock PinnedAllocator::allocate(Bytes requested, Component component) {
  if (requested <= 0) return kNoHostBlock;
  const bool rounded = !settings_.largest_rounded || requested <= *settings_.largest_rounded;
  const Bytes size =
      rounded ? static_cast<Bytes>(std::bit_ceil(static_cast<std::uint64_t>(requested))) : requested;
  if (const auto kept = kept_.find(size); kept != kept_.end()) {
    if (--kept->second == 0) kept_.erase(kept);
  } else {
    reserved_ += size;
  }
  in_use_[component] += requested;
  const Entry entry{requested, size, component};
  if (unused_.empty()) {
    blocks_.push_back(entry);
    return static_cast<HostBlock>(blocks_.size() - 1);
  }
  const std::uint32_t index = unused_.back();
  unused_.pop_back();
  blocks_[index] = entry;
  return static_cast<HostBlock>(index);
}

void PinnedAllocator::free(HostBlock block) {
  if (block == kNoHostBlock) return;
  const Entry& entry = blocks_[static_cast<std::uint32_t>(block)];
  in_use_[entry.component] -= entry.requested;
  if (settings_.largest_kept && entry.size > *settings_.largest_kept) {
    reserved_ -= entry.size;
  } else {
    ++kept_[entry.size];
  }
  unused_.push_back(static_cast<std::uint32_t>(block));
}

void PinnedAllocator::empty_cache() {
  for (const auto& [size, count] : kept_) reserved_ -= size * count;
  kept_.clear();
}

Breakdown PinnedAllocator::breakdown() const {
  Breakdown out = in_use_;
  out[Component::allocator_slack] += reserved_ - in_use_.total();
  return out;
}

}  // namespace headroom

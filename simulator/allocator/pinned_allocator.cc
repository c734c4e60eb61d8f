#include "simulator/allocator/pinned_allocator.h"

namespace headroom {
namespace {

allocator::AllocatorSettings with(const PinnedSettings& pinned) {
  allocator::AllocatorSettings settings;
  settings.pinned_max_round_threshold = pinned.largest_rounded.value_or(allocator::kUnlimited);
  settings.pinned_max_cached_size = pinned.largest_kept.value_or(allocator::kUnlimited);
  return settings;
}

}  // namespace

PinnedAllocator::PinnedAllocator(const PinnedSettings& settings)
    : allocator_(with(settings), host_, events_) {}

HostBlock PinnedAllocator::allocate(Bytes requested, Component component) {
  if (requested <= 0) return kNoHostBlock;
  const allocator::PinnedBlockId id = allocator_.allocate(requested);
  if (id >= entries_.size()) entries_.resize(id + 1);
  entries_[id] = {.requested = requested, .component = component};
  in_use_[component] += requested;
  return static_cast<HostBlock>(id);
}

void PinnedAllocator::free(HostBlock block) {
  if (block == kNoHostBlock) return;
  const auto id = static_cast<allocator::PinnedBlockId>(block);
  in_use_[entries_[id].component] -= entries_[id].requested;
  allocator_.free(id);
}

void PinnedAllocator::empty_cache() {
  allocator_.empty_cache();
}

Breakdown PinnedAllocator::breakdown() const {
  Breakdown out = in_use_;
  out[Component::allocator_slack] += reserved() - in_use_.total();
  return out;
}

}  // namespace headroom

#include "simulator/time/host_blocks.h"

#include <algorithm>

namespace headroom {
namespace {

constexpr Bytes kMapped = 32 * kMiB;

double seconds(Bytes bytes, double rate) {
  return rate > 0 ? static_cast<double>(bytes) / rate : 0;
}

/// Raises `now` by `bytes`; returns by how much it is above the highest so far.
Bytes grow(Bytes bytes, Bytes& now, Bytes& most) {
  now += bytes;
  const Bytes more = std::max<Bytes>(0, now - most);
  most += more;
  return more;
}

}  // namespace

const HostBlocks::Entry* HostBlocks::find(HostBlock block) const {
  const auto at = static_cast<std::size_t>(block);
  return block == kNoHostBlock || at >= entries_.size() ? nullptr : &entries_[at];
}

double HostBlocks::allocate(HostBlock block, Bytes bytes, HostKind kind) {
  if (block == kNoHostBlock) return 0;
  const auto at = static_cast<std::size_t>(block);
  if (at >= entries_.size()) entries_.resize(std::max(at + 1, 2 * entries_.size()));
  Entry& entry = entries_[at];
  entry = {bytes, kind, 0};
  if (kind == HostKind::pinned) return seconds(grow(bytes, pinned_, most_pinned_), rates_.pin);
  entry.untouched = bytes >= kMapped ? bytes : grow(bytes, heap_, most_heap_);
  return 0;
}

double HostBlocks::free(HostBlock block) {
  const auto at = static_cast<std::size_t>(block);
  if (find(block) == nullptr) return 0;
  const Entry entry = entries_[at];
  entries_[at] = {};
  if (entry.kind == HostKind::pinned) {
    pinned_ -= entry.bytes;
    return 0;
  }
  if (entry.bytes >= kMapped) return seconds(entry.bytes - entry.untouched, rates_.unmap);
  heap_ -= entry.bytes;
  return 0;
}

double HostBlocks::first_touch(HostBlock block) {
  if (find(block) == nullptr) return 0;
  Entry& entry = entries_[static_cast<std::size_t>(block)];
  const Bytes bytes = entry.untouched;
  entry.untouched = 0;
  return seconds(bytes, rates_.first_touch);
}

bool HostBlocks::pinned(HostBlock block) const {
  const Entry* entry = find(block);
  return entry != nullptr && entry->kind == HostKind::pinned;
}

}  // namespace headroom

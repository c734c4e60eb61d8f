#include "simulator/replay/snapshot.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom::replay {
namespace {

constexpr std::string_view kActionNames[kTraceActions] = {
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "oom",
    "snapshot",     "other"};

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  hash *= 0xFF51AFD7ED558CCDu;
  return hash ^ (hash >> 32);
}

std::uint64_t hash_of(const Frame& frame) {
  return mix(mix(mix(0, frame.name), frame.file), frame.line);
}

std::uint64_t hash_of(std::span<const std::uint32_t> items) {
  std::uint64_t hash = items.size();
  for (const std::uint32_t item : items) hash = mix(hash, item);
  return hash;
}

/// Finds the id whose content `same` accepts, or the slot for a new one; grows the table when half full.
template <typename HashOfId, typename Same>
std::uint32_t& find_slot(std::vector<std::uint32_t>& slots, std::size_t count, std::uint64_t hash,
                         const HashOfId& hash_of_id, const Same& same) {
  if (count * 2 >= slots.size()) {
    std::vector<std::uint32_t> larger(std::max<std::size_t>(256, slots.size() * 2));
    for (std::uint32_t id = 0; id < count; ++id) {
      std::size_t i = hash_of_id(id) & (larger.size() - 1);
      while (larger[i] != 0) i = (i + 1) & (larger.size() - 1);
      larger[i] = id + 1;
    }
    slots = std::move(larger);
  }
  std::size_t i = hash & (slots.size() - 1);
  while (slots[i] != 0 && !same(slots[i] - 1)) i = (i + 1) & (slots.size() - 1);
  return slots[i];
}

}  // namespace

std::string_view name(TraceAction action) {
  return kActionNames[static_cast<std::size_t>(action)];
}

StackTable::StackTable() {
  add_stack({});
}

std::uint32_t StackTable::add_frame(const Frame& frame) {
  std::uint32_t& slot = find_slot(
      frame_slots_, frames_.size(), hash_of(frame), [&](std::uint32_t id) { return hash_of(frames_[id]); },
      [&](std::uint32_t id) { return frames_[id] == frame; });
  if (slot == 0) {
    frames_.push_back(frame);
    slot = static_cast<std::uint32_t>(frames_.size());
  }
  return slot - 1;
}

StackId StackTable::add_stack(std::span<const std::uint32_t> frames) {
  std::uint32_t& slot = find_slot(
      stack_slots_, stacks_.size(), hash_of(frames), [&](StackId id) { return hash_of(stack(id)); },
      [&](StackId id) { return std::ranges::equal(stack(id), frames); });
  if (slot == 0) {
    stacks_.emplace_back(static_cast<std::uint32_t>(items_.size()),
                         static_cast<std::uint32_t>(frames.size()));
    items_.insert(items_.end(), frames.begin(), frames.end());
    slot = static_cast<std::uint32_t>(stacks_.size());
  }
  return slot - 1;
}

std::size_t StackTable::memory() const {
  return frames_.capacity() * sizeof(Frame) + items_.capacity() * 4 + stacks_.capacity() * 8 +
         (frame_slots_.capacity() + stack_slots_.capacity()) * 4;
}

std::string frame_text(const Snapshot& snapshot, std::uint32_t frame) {
  const Frame& f = snapshot.stacks.frame(frame);
  return fmt::format("{}:{} {}", snapshot.strings[f.file], f.line, snapshot.strings[f.name]);
}

}  // namespace headroom::replay

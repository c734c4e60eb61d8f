#include "simulator/replay/recorded_device.h"

#include <fmt/format.h>

#include <iterator>

namespace headroom::replay {
namespace {

constexpr allocator::Address kBase = allocator::Address{1} << 62;  // away from what the driver model places
constexpr Bytes kPage = 2 * kMiB;                                  // of the driver: segments begin with one

}  // namespace

void RecordedDevice::follow(const Recording& recording) {
  for (const RecordedSegmentEvent& event : recording.segment_events) {
    if (event.action == RecordedSegmentEvent::Action::segment_alloc && event.address)
      addresses_.push_back(kBase + *event.address);
  }
}

std::optional<allocator::Address> RecordedDevice::allocate(Bytes bytes) {
  if (next_ >= addresses_.size()) return VirtualDevice::allocate(bytes);
  if (!take(bytes)) return std::nullopt;
  const allocator::Address address = addresses_[next_++];
  const auto above = held_.lower_bound(address);
  const bool overlaps =
      (above != held_.end() && above->first < address + bytes) ||
      (above != held_.begin() && std::prev(above)->first + std::prev(above)->second > address);
  if (contradiction_.empty() && (overlaps || address < kBase || address % kPage != 0))
    contradiction_ = fmt::format("segment address {} is not free for {} bytes", address - kBase, bytes);
  held_[address] = bytes;
  return address;
}

void RecordedDevice::free(allocator::Address address, Bytes bytes) {
  if (held_.erase(address) == 0) return VirtualDevice::free(address, bytes);
  give(bytes);
}

std::size_t RecordedTies::choose(const std::vector<allocator::TiedBlock>& tied) {
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < tied.size(); ++i)
    if (static_cast<std::int64_t>(tied[i].segment) == segment_ && tied[i].offset == offset_) chosen = i;
  for (const allocator::TiedBlock& other : tied) {
    if (other.segment == tied[chosen].segment) continue;
    if (contradiction_.empty() && below(other.segment, tied[chosen].segment))
      contradiction_ = fmt::format("segments {} and {} would each lie below the other", other.segment,
                                   tied[chosen].segment);
    below_[tied[chosen].segment].insert(other.segment);
  }
  return chosen;
}

// Whether earlier choices say that segment `a` lies below segment `b`.
bool RecordedTies::below(std::uint64_t a, std::uint64_t b) const {
  std::set<std::uint64_t> seen{a};
  std::vector<std::uint64_t> open{a};
  while (!open.empty()) {
    const auto found = below_.find(open.back());
    open.pop_back();
    if (found == below_.end()) continue;
    for (const std::uint64_t above : found->second) {
      if (above == b) return true;
      if (seen.insert(above).second) open.push_back(above);
    }
  }
  return false;
}

}  // namespace headroom::replay

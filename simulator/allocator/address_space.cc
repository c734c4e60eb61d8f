#include "simulator/allocator/address_space.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace headroom::allocator {
namespace {

constexpr Bytes kRegion = 32 * kMiB;
/// Far more than a card; addresses stay below 2^53, exact in the doubles of viewers of snapshots.
constexpr Bytes kSpace = Bytes{1} << 51;
constexpr Bytes kDriver =
    6 * kMiB;  // the driver's own memory in the first region; 4 to 10 MiB fit the recordings

}  // namespace

AddressSpace::AddressSpace() {
  space_.emplace(0, kSpace);
  place(kDriver);
}

std::optional<Address> AddressSpace::place(Bytes bytes) {
  const auto region =
      std::find_if(regions_.rbegin(), regions_.rend(), [&](const Region& r) { return r.largest >= bytes; });
  if (region != regions_.rend()) {
    auto best = region->holes.end();
    for (auto hole = region->holes.begin(); hole != region->holes.end(); ++hole) {
      if (hole->second >= bytes && (best == region->holes.end() || hole->second < best->second)) best = hole;
    }
    const auto [start, size] = *best;
    region->holes.erase(best);
    if (size > bytes) region->holes.emplace(start + bytes, size - bytes);
    measure(*region);
    return start;
  }
  const Bytes size = round_up(bytes, kRegion);
  auto room = space_.rbegin();
  while (room != space_.rend() && room->second <= size) ++room;
  if (room == space_.rend()) return std::nullopt;
  const Address start = room->first + room->second - size;
  room->second -= size;
  regions_.push_back({.start = start, .size = size, .largest = 0, .holes = {}});
  if (size > bytes) regions_.back().holes.emplace(start + bytes, size - bytes);
  measure(regions_.back());
  return start;
}

void AddressSpace::measure(Region& region) {
  region.largest = 0;
  for (const auto& [start, size] : region.holes) region.largest = std::max(region.largest, size);
}

void AddressSpace::remove(Address address, Bytes bytes) {
  const auto region = std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) {
    return r.start <= address && address < r.start + r.size;
  });
  assert(region != regions_.end());
  add(region->holes, address, bytes);
  measure(*region);
  if (region->largest < region->size) return;
  add(space_, region->start, region->size);
  regions_.erase(region);
}

// Adds an interval, joined with the intervals that touch it.
void AddressSpace::add(Holes& holes, Address start, Bytes size) {
  const auto next = holes.lower_bound(start);
  if (next != holes.end() && next->first == start + size) {
    size += next->second;
    holes.erase(next);
  }
  const auto after = holes.lower_bound(start);
  if (after != holes.begin()) {
    const auto previous = std::prev(after);
    if (previous->first + previous->second == start) {
      previous->second += size;
      return;
    }
  }
  holes.emplace(start, size);
}

}  // namespace headroom::allocator

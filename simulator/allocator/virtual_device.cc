#include "simulator/allocator/virtual_device.h"

#include <algorithm>
#include <limits>

namespace headroom::allocator {
namespace {

constexpr Address kLastRange = Address{1} << 62;  // so that no address overflows
constexpr Bytes kRangeStep = 32 * kMiB;            // the driver's granularity of address space
constexpr Bytes kPage = 2 * kMiB;                  // and of memory

}  // namespace

bool CardMemory::take(Bytes bytes) {
  if (bytes > free() - kept_) return false;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return true;
}

std::optional<Address> VirtualDevice::allocate(Bytes bytes) {
  const Bytes pages = round_up(bytes, kPage);
  if (!take(pages)) return std::nullopt;
  const std::optional<Address> address = space_.place(pages);
  if (!address) give(pages);
  return address;
}

void VirtualDevice::free(Address address, Bytes bytes) {
  const Bytes pages = round_up(bytes, kPage);
  give(pages);
  space_.remove(address, pages);
}

Address VirtualDevice::reserve(Bytes bytes, bool) {
  if (bytes > kLastRange - kFirstRange) return 0;
  const Bytes size = round_up(bytes, kRangeStep);
  Address address = full_below_;
  for (auto range = ranges_.lower_bound(address); range != ranges_.end(); ++range) {
    if (range->first - address >= size) break;
    address = range->first + range->second;
  }
  if (address > kLastRange - size) return 0;
  if (address == full_below_) full_below_ += size;
  ranges_.emplace(address, size);
  return address;
}

void VirtualDevice::release(Address address, Bytes) {
  ranges_.erase(address);
  full_below_ = std::min(full_below_, address);
}

bool VirtualDevice::map(Address address, Bytes bytes, Bytes) {
  return address != 0 && take(bytes);
}

void VirtualDevice::unmap(Address, Bytes bytes, Bytes) {
  give(bytes);
}

bool VirtualDevice::take(Bytes bytes) {
  if (!card_->take(bytes)) return false;
  process_ += bytes;
  return true;
}

void VirtualDevice::give(Bytes bytes) {
  card_->give(bytes);
  process_ -= bytes;
}

EventToken VirtualDevice::record_event(Stream stream) {
  ++recorded_;
  if (hold_ || ahead_ || busy_.count(stream) != 0)
    open_.emplace(recorded_, Open{stream, std::numeric_limits<double>::infinity()});
  else if (clock_ != nullptr && clock_->reached(stream) > clock_->now(stream))
    open_.emplace(recorded_, Open{stream, clock_->reached(stream)});
  return recorded_;
}

bool VirtualDevice::event_done(EventToken event) {
  const auto found = open_.find(event);
  if (found == open_.end()) return true;
  const Open& open = found->second;
  if (clock_ == nullptr || clock_->now(open.stream) < open.done_at) return false;
  open_.erase(found);
  return true;
}

void VirtualDevice::wait_event(EventToken event) {
  if (ahead_) open_.erase(open_.begin(), open_.upper_bound(event));
  if (clock_ != nullptr) open_.erase(event);
}

void VirtualDevice::synchronize() {
  open_.clear();
  busy_.clear();
}

}  // namespace headroom::allocator

#include "simulator/allocator/virtual_device.h"

#include <algorithm>

namespace headroom::allocator {
namespace {

constexpr Address kFirstRange = Address{1} << 52;  // above every native segment
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
  return space_.place(pages);
}

void VirtualDevice::free(Address address, Bytes bytes) {
  const Bytes pages = round_up(bytes, kPage);
  give(pages);
  space_.remove(address, pages);
}

Address VirtualDevice::reserve(Bytes bytes, bool) {
  const Bytes size = round_up(bytes, kRangeStep);
  Address address = kFirstRange;
  for (const auto& [start, held] : ranges_) {
    if (start - address >= size) break;
    address = start + held;
  }
  ranges_.emplace(address, size);
  return address;
}

void VirtualDevice::release(Address address, Bytes) {
  ranges_.erase(address);
}

bool VirtualDevice::map(Address, Bytes bytes, Bytes) {
  return take(bytes);
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
  if (hold_ || ahead_ || busy_.count(stream) != 0) open_.insert(recorded_);
  return recorded_;
}

void VirtualDevice::wait_event(EventToken event) {
  if (ahead_) open_.erase(open_.begin(), open_.upper_bound(event));
}

void VirtualDevice::synchronize() {
  open_.clear();
  busy_.clear();
}

}  // namespace headroom::allocator

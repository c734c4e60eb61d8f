#include "simulator/allocator/virtual_device.h"

#include <algorithm>

namespace headroom::allocator {
namespace {

constexpr Address kFirstRange = Address{1} << 52;  // above every native segment
constexpr Bytes kRangeStep = 32 * kMiB;            // the driver's granularity of address space

}  // namespace

bool CardMemory::take(Bytes bytes) {
  if (bytes > free()) return false;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return true;
}

std::optional<Address> VirtualDevice::allocate(Bytes bytes) {
  if (!card_->take(bytes)) return std::nullopt;
  return space_.place(bytes);
}

void VirtualDevice::free(Address address, Bytes bytes) {
  card_->give(bytes);
  space_.remove(address, bytes);
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
  return card_->take(bytes);
}

void VirtualDevice::unmap(Address, Bytes bytes, Bytes) {
  card_->give(bytes);
}

}  // namespace headroom::allocator

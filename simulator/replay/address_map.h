#pragma once

#include <cstdint>
#include <vector>

namespace headroom::replay {

/// A hash map from addresses to 32-bit values: open addressing, erasure without tombstones, so that millions
/// of allocations at changing addresses keep it as small as the live ones. Values are not kNone.
class AddressMap {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  AddressMap() : slots_(1024) {}

  /// kNone when absent.
  std::uint32_t find(std::int64_t address) const {
    for (std::size_t i = slot_of(address);; i = next(i)) {
      if (slots_[i].value == kNone) return kNone;
      if (slots_[i].address == address) return slots_[i].value;
    }
  }

  void set(std::int64_t address, std::uint32_t value) {
    if (size_ * 2 >= slots_.size()) grow();
    std::size_t i = slot_of(address);
    while (slots_[i].value != kNone && slots_[i].address != address) i = next(i);
    size_ += slots_[i].value == kNone;
    slots_[i] = {address, value};
  }

  void erase(std::int64_t address) {
    std::size_t hole = slot_of(address);
    while (slots_[hole].value != kNone && slots_[hole].address != address) hole = next(hole);
    if (slots_[hole].value == kNone) return;
    --size_;
    // Entries behind the hole that hash to it or before move up, so that searches never stop early.
    for (std::size_t i = next(hole); slots_[i].value != kNone; i = next(i)) {
      const std::size_t home = slot_of(slots_[i].address);
      if (((i - home) & mask()) >= ((i - hole) & mask())) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole].value = kNone;
  }

  std::size_t size() const { return size_; }

  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const Slot& slot : slots_)
      if (slot.value != kNone) visit(slot.address, slot.value);
  }

 private:
  struct Slot {
    std::int64_t address = 0;
    std::uint32_t value = kNone;
  };

  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t next(std::size_t i) const { return (i + 1) & mask(); }
  std::size_t slot_of(std::int64_t address) const {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(address) >> 9) * 0x9E3779B97F4A7C15u >> 20) &
           mask();
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.value == kNone) continue;
      std::size_t i = slot_of(slot.address);
      while (slots_[i].value != kNone) i = next(i);
      slots_[i] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace headroom::replay

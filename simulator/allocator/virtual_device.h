#pragma once

#include <map>
#include <memory>

#include "simulator/allocator/address_space.h"
#include "simulator/allocator/device.h"

namespace headroom::allocator {

/// The memory of one card, shared by the processes on it.
class CardMemory {
 public:
  /// `total` as in the device's properties; `used` is taken from the start (contexts, libraries).
  explicit CardMemory(Bytes total, Bytes used = 0) : total_(total), used_(used), peak_(used) {}

  Bytes total() const { return total_; }
  Bytes used() const { return used_; }
  Bytes free() const { return total_ - used_; }
  Bytes peak() const { return peak_; }
  void reset_peak() { peak_ = used_; }

  /// False, and nothing is taken, when less is free.
  bool take(Bytes bytes);
  void give(Bytes bytes) { used_ -= bytes; }

 private:
  Bytes total_, used_, peak_;
};

/// One process's view of a simulated card: bytes from the CardMemory, addresses as the driver gives them.
class VirtualDevice : public Device {
 public:
  explicit VirtualDevice(std::shared_ptr<CardMemory> card) : card_(std::move(card)) {}
  explicit VirtualDevice(Bytes total) : VirtualDevice(std::make_shared<CardMemory>(total)) {}

  CardMemory& card() { return *card_; }

  Bytes total_memory() const override { return card_->total(); }
  Bytes free_memory() const override { return card_->free(); }
  std::optional<Address> allocate(Bytes bytes) override;
  void free(Address address, Bytes bytes) override;
  Address reserve(Bytes bytes, bool small_pool) override;
  void release(Address address, Bytes bytes) override;
  bool map(Address address, Bytes bytes, Bytes chunk) override;
  void unmap(Address address, Bytes bytes, Bytes chunk) override;

  /// Streams are idle by default: events are done at once. While held, events recorded from then on are done
  /// only after synchronize().
  void hold_events(bool hold) { hold_ = hold; }
  void synchronize() { done_ = recorded_; }
  EventToken record_event(Stream) override { return ++recorded_; }
  bool event_done(EventToken event) override { return !hold_ || event <= done_; }

 private:
  std::shared_ptr<CardMemory> card_;
  AddressSpace space_;
  std::map<Address, Bytes> ranges_;  ///< of expandable segments: the lowest gap that is large enough is taken
  bool hold_ = false;
  EventToken recorded_ = 0, done_ = 0;
};

}  // namespace headroom::allocator

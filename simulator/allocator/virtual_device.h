#pragma once

#include <map>
#include <memory>
#include <set>

#include "simulator/allocator/address_space.h"
#include "simulator/allocator/device.h"

namespace headroom::allocator {

/// Of the bytes that the driver reports free, the last it gives to nobody, not even one page at a time. An
/// H100 under driver 580 reports 2.19 MiB free when it refuses a page of 2 MiB, and gives pages while more is
/// free.
inline constexpr Bytes kKeptByDriver = 2 * kMiB;

/// The memory of one card, shared by the processes on it.
class CardMemory {
 public:
  /// `total` as in the device's properties; `used` is taken from the start (contexts, libraries); of what is
  /// free, the last `kept` bytes cannot be had (kKeptByDriver on a real card; 0 for a capacity to be
  /// reached).
  explicit CardMemory(Bytes total, Bytes used = 0, Bytes kept = 0)
      : total_(total), kept_(kept), used_(used), peak_(used) {}

  Bytes total() const { return total_; }
  Bytes used() const { return used_; }
  Bytes free() const { return total_ - used_; }
  Bytes peak() const { return peak_; }
  void reset_peak() { peak_ = used_; }

  /// False, and nothing is taken, when less is free beside what the driver keeps.
  bool take(Bytes bytes);
  void give(Bytes bytes) { used_ -= bytes; }

 private:
  Bytes total_, kept_, used_, peak_;
};

/// How far a process's streams are, as its host knows it.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Up to where `stream` is done by now, and what it has been given so far is done, on the stream's own scale.
  virtual double now(Stream stream) const = 0;
  virtual double reached(Stream stream) const = 0;
};

/// One process's view of a simulated card: bytes from the CardMemory in whole pages of 2 MiB, addresses as
/// the driver gives them.
class VirtualDevice : public Device {
 public:
  /// What the card's memory held before is taken for this process's own (its context).
  explicit VirtualDevice(std::shared_ptr<CardMemory> card)
      : card_(std::move(card)), process_(card_->used()) {}
  explicit VirtualDevice(Bytes total) : VirtualDevice(std::make_shared<CardMemory>(total)) {}

  CardMemory& card() { return *card_; }

  Bytes total_memory() const override { return card_->total(); }
  Bytes free_memory() const override { return card_->free(); }
  Bytes process_memory() const override { return process_; }
  std::optional<Address> allocate(Bytes bytes) override;
  void free(Address address, Bytes bytes) override;
  /// 0, which nothing can be mapped to, when no address range is left.
  Address reserve(Bytes bytes, bool small_pool) override;
  void release(Address address, Bytes bytes) override;
  bool map(Address address, Bytes bytes, Bytes chunk) override;
  void unmap(Address address, Bytes bytes, Bytes chunk) override;

  /// A library of this process takes memory beside the allocator and keeps it: its addresses are gone. Its
  /// bytes are counted where memory outside allocators is.
  void take_addresses(Bytes bytes) { space_.place(bytes); }

  /// Streams are idle by default: events are done at once. From here on this one's are done only after
  /// synchronize(), which makes all streams idle again.
  void keep_busy(Stream stream) { busy_.insert(stream); }
  /// The same of every stream, over any number of synchronizations.
  void hold_events(bool hold) { hold_ = hold; }
  /// The host runs ahead of the device: from here on every event is done only once the host has waited for it
  /// or for a later one, of whatever stream: no stream is taken to be further behind than the one waited for.
  void run_ahead() { ahead_ = true; }
  /// From here on an event is done when `clock`, which outlives this, says that its stream has got there.
  void follow(const Clock& clock) { clock_ = &clock; }
  void synchronize() override;
  void wait_event(EventToken event) override;
  EventToken record_event(Stream stream) override;
  bool event_done(EventToken event) override;

 protected:
  bool take(Bytes bytes);
  void give(Bytes bytes);

 private:
  static constexpr Address kFirstRange = Address{1} << 52;  ///< above every native segment

  std::shared_ptr<CardMemory> card_;
  AddressSpace space_;
  std::map<Address, Bytes> ranges_;  ///< of expandable segments: the lowest gap that is large enough is taken
  Address full_below_ = kFirstRange;  ///< no gap is below
  Bytes process_;                    ///< held by this process
  bool hold_ = false, ahead_ = false;
  std::set<Stream> busy_;
  struct Open {
    Stream stream = 0;
    double done_at = 0;  ///< on the stream's clock; infinite: once it was waited for
  };
  const Clock* clock_ = nullptr;
  std::map<EventToken, Open> open_;  ///< events not done
  EventToken recorded_ = 0;
};

}  // namespace headroom::allocator

#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/virtual_device.h"
#include "simulator/replay/recording.h"

namespace headroom::replay {

/// A device that places native segments where a recording says. Where the recording has no address for a
/// segment (before it begins, or without addresses) the driver model places it.
class RecordedDevice : public allocator::VirtualDevice {
 public:
  explicit RecordedDevice(Bytes total) : VirtualDevice(total) {}

  /// From here on, segments are those of the recording, in its order.
  void follow(const Recording& recording);
  /// What is impossible in the recorded addresses; empty when nothing is.
  const std::string& contradiction() const { return contradiction_; }

  std::optional<allocator::Address> allocate(Bytes bytes) override;
  void free(allocator::Address address, Bytes bytes) override;

 private:
  std::vector<allocator::Address> addresses_;
  std::size_t next_ = 0;
  std::map<allocator::Address, Bytes> held_;  ///< of the recorded ones
  std::string contradiction_;
};

/// Takes the recorded choice among equal free blocks of different segments, and notes which segment must so
/// lie below which. A choice that contradicts earlier ones is refused.
class RecordedTies : public allocator::TieBreaker {
 public:
  /// The place where the recording says that the next allocation went.
  void expect(std::int64_t segment, Bytes offset) {
    segment_ = segment;
    offset_ = offset;
  }
  std::size_t choose(const std::vector<allocator::TiedBlock>& tied) override;
  const std::string& contradiction() const { return contradiction_; }

 private:
  bool below(std::uint64_t a, std::uint64_t b) const;

  std::int64_t segment_ = -1;
  Bytes offset_ = -1;
  std::map<std::uint64_t, std::set<std::uint64_t>> below_;  ///< segments known to lie above one
  std::string contradiction_;
};

}  // namespace headroom::replay

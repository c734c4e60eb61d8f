#pragma once

#include <cstdint>
#include <vector>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/memory/component.h"

namespace headroom {

/// Watches one period of a Repetition over a caching allocator, and what its segments do to the counters.
class RepeatedSegments {
 public:
  struct Segment {
    allocator::CounterEffect counters;
    Breakdown change;      ///< of live bytes by component
    Bytes highest = 0;     ///< allocated above the segment's start, at its highest
    Breakdown at_highest;  ///< change of live bytes at the first such moment
    std::int64_t allocations = 0, highest_at = 0;
  };

  explicit RepeatedSegments(allocator::CachingAllocator& allocator) : allocator_(allocator) {}

  bool watching() const { return watching_; }
  void begin(const Breakdown& live);
  void pause(const Breakdown& live);
  void resume(const Breakdown& live);
  bool closed(const Breakdown& live);
  void stop(const Breakdown& live);
  /// A block came or went. O(1).
  void allocated(allocator::BlockId id, const Breakdown& live);
  void freed(allocator::BlockId id);
  /// Something else happened: the period can't be repeated.
  void spoil() { sound_ = false; }
  /// The small pool still has the segments that it had while the last period was watched.
  bool holds() const { return start_small_reserved_ == allocator_.small_reserved(); }
  const std::vector<Segment>& segments() const { return segments_; }

 private:
  /// A block that a segment took (or gave back, then with a negative size) and did not give back (take
  /// again).
  struct Moved {
    allocator::Address address;
    Bytes size;
  };
  void start_segment(const Breakdown& live);
  void finish_segment(const Breakdown& live);
  bool small(allocator::BlockId id) const { return allocator_.size(id) <= allocator::kSmallMax; }
  void move(allocator::Address address, Bytes size);

  allocator::CachingAllocator& allocator_;
  bool watching_ = false, inside_ = false, sound_ = false;
  Bytes start_allocated_ = 0;
  std::int64_t start_small_reserved_ = 0;
  Breakdown start_live_;
  std::vector<Segment> segments_;
  std::vector<Moved> moved_;  ///< short: most blocks come and go at once
};

}  // namespace headroom

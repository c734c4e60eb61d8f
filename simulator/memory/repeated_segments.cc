#include "simulator/memory/repeated_segments.h"

namespace headroom {

void RepeatedSegments::start_segment(const Breakdown& live) {
  inside_ = true;
  segments_.emplace_back();
  start_allocated_ = allocator_.allocated();
  start_live_ = live;
  allocator_.begin_small_watch();
}

void RepeatedSegments::finish_segment(const Breakdown& live) {
  inside_ = false;
  segments_.back().counters = allocator_.end_small_watch();
  segments_.back().change = live;
  segments_.back().change -= start_live_;
}

void RepeatedSegments::begin(const Breakdown& live) {
  stop(live);
  watching_ = true;
  // Waiting blocks and garbage collection depend on how often the allocator was called.
  sound_ = allocator_.repeatable();
  segments_.clear();
  moved_.clear();
  start_small_reserved_ = allocator_.small_reserved();
  start_segment(live);
}

void RepeatedSegments::pause(const Breakdown& live) {
  if (watching_ && inside_) finish_segment(live);
}

void RepeatedSegments::resume(const Breakdown& live) {
  if (watching_ && !inside_) start_segment(live);
}

bool RepeatedSegments::closed(const Breakdown& live) {
  if (!watching_ || !sound_ || !moved_.empty() || !holds()) return false;
  pause(live);
  watching_ = false;
  return true;
}

void RepeatedSegments::stop(const Breakdown& live) {
  pause(live);
  watching_ = false;
}

void RepeatedSegments::allocated(allocator::BlockId id, const Breakdown& live) {
  const bool is_small = small(id);
  if (is_small != inside_) {
    sound_ = false;
    return;
  }
  if (!inside_ || !sound_) return;
  move(allocator_.address(id), allocator_.size(id));
  Segment& segment = segments_.back();
  ++segment.allocations;
  const Bytes above = allocator_.allocated() - start_allocated_;
  if (above > segment.highest) {
    segment.highest = above;
    segment.highest_at = segment.allocations;
    segment.at_highest = live;
    segment.at_highest -= start_live_;
  }
}

void RepeatedSegments::freed(allocator::BlockId id) {
  if (small(id) != inside_) sound_ = false;
  if (inside_ && sound_) move(allocator_.address(id), -allocator_.size(id));
}

void RepeatedSegments::move(allocator::Address address, Bytes size) {
  for (std::size_t i = moved_.size(); i-- > 0;) {
    if (moved_[i].address != address || moved_[i].size != -size) continue;
    moved_[i] = moved_.back();
    moved_.pop_back();
    return;
  }
  moved_.push_back({address, size});
}

}  // namespace headroom

#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "simulator/allocator/device.h"
#include "simulator/allocator/settings.h"
#include "simulator/allocator/statistics.h"

namespace headroom::allocator::test {

/// The allocator's rules in the plainest form: ordered sets of blocks and statistics by name, no thought for
/// speed. Default pool only. Shares with the real one its settings, rounding and the device; nothing else.
class ReferenceAllocator {
 public:
  struct Block {
    Address address = 0;
    Bytes size = 0, requested = 0;
    Stream stream = 0;
    bool small = false, expandable = false, allocated = false, mapped = true;
    int events = 0;
    std::set<Stream> uses;
    std::int64_t base = 0;
    std::list<Block>* segment = nullptr;
    std::list<Block>::iterator self;
    bool idle() const { return !allocated && events == 0 && uses.empty(); }
    bool split() const { return segment->size() > 1; }
  };

  ReferenceAllocator(const AllocatorSettings& settings, Device& device)
      : settings_(settings), device_(device) {}

  Block* allocate(Bytes n, Stream stream) {
    process_events();
    const Bytes s = round_request(settings_, n);
    const bool small = s <= kSmallMax;
    const Bytes a = segment_size(settings_, s);
    Block* block = find(s, small, stream);
    if (block == nullptr) {
      if (gc()) collect_garbage();
      block = obtain(s, a, small, stream);
      if (block == nullptr && release_available(s, small, stream)) block = obtain(s, a, small, stream);
      if (block == nullptr) {
        empty_cache();
        ++counts["num_alloc_retries"];
        block = obtain(s, a, small, stream);
      }
      if (block == nullptr) {
        ++counts["num_ooms"];
        return nullptr;
      }
    }
    return commit(block, s, n);
  }

  void free(Block* block) {
    block->allocated = false;
    add(*block, "allocation", -1);
    add(*block, "allocated_bytes", -block->size);
    if (block->size >= settings_.max_split_size) change("oversize_allocations", -1);
    if (block->uses.empty()) {
      complete(block);
      return;
    }
    block->events = static_cast<int>(block->uses.size());
    for (const Stream stream : block->uses) queues_[stream].emplace_back(device_.record_event(stream), block);
    block->uses.clear();
  }

  void record_stream(Block* block, Stream stream) {
    if (stream != block->stream) block->uses.insert(stream);
  }

  void empty_cache() {
    ++counts["num_sync_all_streams"];
    for (auto queue = queues_.rbegin(); queue != queues_.rend(); ++queue) {
      for (auto& [event, block] : queue->second)
        if (--block->events == 0) complete(block);
      queue->second.clear();
    }
    for (const bool small : {false, true}) {
      std::vector<Block*> whole, expandable;
      for (Block* b : ordered(small)) (b->expandable ? expandable : whole).push_back(b);
      for (Block* b : whole)
        if (!b->split()) release(b);
      for (Block* b : expandable) unmap(b);
    }
  }

  void set_limit(Bytes limit) { limit_ = limit; }

  Bytes current(const std::string& name) { return statistics[name + ".all"].current; }

  std::map<std::string, Statistic> statistics;
  std::map<std::string, std::int64_t> counts;
  std::list<std::list<Block>> segments;

 private:
  bool gc() const { return limit_ != kUnlimited && settings_.garbage_collection_threshold > 0; }
  Bytes chunk(bool small) const { return small ? kSmallSegment : settings_.large_segment_size; }

  void change(const std::string& name, std::int64_t amount) {
    Statistic& s = statistics[name];
    s.current += amount;
    if (amount > 0) s.allocated += amount;
    if (amount < 0) s.freed -= amount;
    if (amount > 0) s.peak = std::max(s.peak, s.current);
  }
  void add(const Block& block, const std::string& name, std::int64_t amount) {
    change(name + ".all", amount);
    change(name + (block.small ? ".small_pool" : ".large_pool"), amount);
  }

  // Every idle mapped block of a half, as the allocator orders them.
  std::vector<Block*> ordered(bool small, bool mapped = true) {
    std::vector<Block*> out;
    for (auto& segment : segments)
      for (Block& b : segment)
        if (b.idle() && b.small == small && b.mapped == mapped) out.push_back(&b);
    std::sort(out.begin(), out.end(), [mapped](const Block* a, const Block* b) {
      return mapped ? std::tuple(a->stream, a->size, a->address) < std::tuple(b->stream, b->size, b->address)
                    : std::pair(a->stream, a->address) < std::pair(b->stream, b->address);
    });
    return out;
  }

  static Block* after(const Block* b) {
    const auto next = std::next(b->self);
    return next == b->segment->end() ? nullptr : &*next;
  }
  static Block* before(const Block* b) {
    return b->self == b->segment->begin() ? nullptr : &*std::prev(b->self);
  }

  static Bytes grown(const Block* b) {
    const Block* next = after(b);
    return b->size + (next != nullptr && !next->mapped ? next->size : 0);
  }

  Block* find(Bytes s, bool small, Stream stream) {
    if (gc()) ++searches_[small];
    std::vector<Block*> blocks;
    for (Block* b : ordered(small))
      if (b->stream == stream && b->size >= s) blocks.push_back(b);
    std::size_t i = 0;
    if (settings_.expandable_segments) {
      while (i + 1 < blocks.size() && blocks[i]->expandable && grown(blocks[i + 1]) < grown(blocks[i])) ++i;
    } else {
      while (i < blocks.size() && blocks[i]->expandable) ++i;
    }
    if (i >= blocks.size()) return nullptr;
    Block* b = blocks[i];
    if (s < settings_.max_split_size && b->size >= settings_.max_split_size) return nullptr;
    if (s >= settings_.max_split_size && b->size >= s + settings_.max_non_split_rounding) return nullptr;
    return b;
  }

  Block* commit(Block* block, Bytes s, Bytes n) {
    const Bytes rest = block->size - s;
    const bool was_split = block->split();
    const bool fine = block->small || settings_.expandable_segments;
    const bool split = fine ? rest >= kMinBlock : s < settings_.max_split_size && rest > kSmallMax;
    if (split) {
      cut(block, s);
      block->size = s;
    }
    block->allocated = true;
    block->requested = n;
    if (!block->expandable) {
      if (split && !was_split) {
        add(*block, "inactive_split", 1);
        add(*block, "inactive_split_bytes", rest);
      } else if (split) {
        add(*block, "inactive_split_bytes", -s);
      } else if (was_split) {
        add(*block, "inactive_split", -1);
        add(*block, "inactive_split_bytes", -block->size);
      }
    }
    add(*block, "allocation", 1);
    add(*block, "allocated_bytes", block->size);
    add(*block, "active", 1);
    add(*block, "active_bytes", block->size);
    add(*block, "requested_bytes", n);
    if (block->size >= settings_.max_split_size) change("oversize_allocations", 1);
    return block;
  }

  // The part of a block from `offset` on becomes a block of its own.
  Block* cut(Block* block, Bytes offset) {
    Block rest = *block;
    rest.address += offset;
    rest.size -= offset;
    rest.base = searches_[block->small];
    const auto self = block->segment->insert(std::next(block->self), rest);
    self->self = self;
    block->size = offset;
    return &*self;
  }

  // Joins a block with idle neighbours of its kind; how many were absorbed.
  int merge(Block*& block) {
    int merges = 0;
    if (Block* prev = before(block); prev != nullptr && prev->idle() && prev->mapped == block->mapped) {
      block->address = prev->address;
      block->size += prev->size;
      block->segment->erase(prev->self);
      ++merges;
    }
    if (Block* next = after(block); next != nullptr && next->idle() && next->mapped == block->mapped) {
      block->size += next->size;
      block->segment->erase(next->self);
      ++merges;
    }
    return merges;
  }

  void complete(Block* block) {
    const Bytes size = block->size;
    add(*block, "active", -1);
    add(*block, "active_bytes", -size);
    add(*block, "requested_bytes", -block->requested);
    const int merges = merge(block);
    block->base = searches_[block->small];
    if (block->expandable) return;
    add(*block, "inactive_split", (block->split() ? 1 : 0) - merges);
    add(*block, "inactive_split_bytes", (block->split() ? block->size : 0) - (block->size - size));
  }

  void process_events() {
    for (auto queue = queues_.rbegin(); queue != queues_.rend(); ++queue) {
      while (!queue->second.empty() && device_.event_done(queue->second.front().first)) {
        Block* block = queue->second.front().second;
        queue->second.pop_front();
        if (--block->events == 0) complete(block);
      }
    }
  }

  Block* new_segment(Address address, Bytes size, bool small, Stream stream, bool expandable) {
    segments.emplace_back();
    auto& segment = segments.back();
    segment.emplace_back();
    Block& b = segment.back();
    b.address = address;
    b.size = size;
    b.small = small;
    b.stream = stream;
    b.expandable = expandable;
    b.mapped = !expandable;
    b.segment = &segment;
    b.self = segment.begin();
    b.base = searches_[small];
    return &b;
  }

  void drop(const std::list<Block>* segment) {
    segments.remove_if([segment](const auto& s) { return &s == segment; });
  }

  Block* obtain(Bytes s, Bytes a, bool small, Stream stream) {
    if (limit_ != kUnlimited && total_ + a > limit_) return nullptr;
    if (settings_.expandable_segments) return grow(s, small, stream);
    const auto address = device_.allocate(a);
    if (!address) return nullptr;
    Block* b = new_segment(*address, a, small, stream, false);
    total_ += a;
    ++counts["num_device_alloc"];
    add(*b, "segment", 1);
    add(*b, "reserved_bytes", a);
    if (a >= settings_.max_split_size) change("oversize_segments", 1);
    return b;
  }

  Block* grow(Bytes s, bool small, Stream stream) {
    Block* start = nullptr;
    for (Block* u : ordered(small, false)) {
      if (u->stream != stream || start != nullptr) continue;
      Block* c = before(u) != nullptr && before(u)->idle() ? before(u) : u;
      Bytes sum = 0;
      for (Block* b = c; b != nullptr && b->idle(); b = after(b)) sum += b->size;
      if (sum >= s) start = c;
    }
    if (start == nullptr) {
      const Bytes g = device_.total_memory();
      const Bytes size = round_up(g + g / 8, chunk(small));
      start = new_segment(device_.reserve(size, small), size, small, stream, true);
    }
    if (!start->mapped) {
      start = map(start, std::min(start->size, s));
      if (start == nullptr) return nullptr;
    }
    while (start->size < s) {
      Block* next = after(start);
      start = map(next, std::min(s - start->size, next->size));
      if (start == nullptr) return nullptr;
    }
    return start;
  }

  Block* map(Block* b, Bytes want) {
    const Bytes bytes = round_up(want, chunk(b->small));
    if (!device_.map(b->address, bytes, chunk(b->small))) return nullptr;
    if (b->size > bytes) cut(b, bytes);
    b->mapped = true;
    merge(b);
    total_ += bytes;
    ++counts["num_device_alloc"];
    add(*b, "reserved_bytes", bytes);
    return b;
  }

  void release(Block* b) {
    device_.free(b->address, b->size);
    total_ -= b->size;
    ++counts["num_device_free"];
    add(*b, "segment", -1);
    add(*b, "reserved_bytes", -b->size);
    if (b->size >= settings_.max_split_size) change("oversize_segments", -1);
    drop(b->segment);
  }

  void unmap(Block* b) {
    const Address range = b->segment->front().address;
    const Bytes low = round_up(b->address - range, chunk(b->small));
    const Bytes high = (b->address + b->size - range) / chunk(b->small) * chunk(b->small);
    if (low >= high) return;
    device_.unmap(range + low, high - low, chunk(b->small));
    if (b->address + b->size > range + high) cut(b, range + high - b->address);
    if (range + low > b->address) b = cut(b, range + low - b->address);
    b->mapped = false;
    merge(b);
    total_ -= high - low;
    ++counts["num_device_free"];
    add(*b, "reserved_bytes", -(high - low));
    if (b->segment->size() == 1) {
      device_.release(b->address, b->size);
      drop(b->segment);
    }
  }

  bool release_available(Bytes s, bool small, Stream stream) {
    if (settings_.max_split_size == kUnlimited) return false;
    const Bytes key = std::max(s, settings_.max_split_size);
    std::vector<Block*> smaller;
    for (Block* b : ordered(small)) {
      if (b->stream != stream) continue;
      if (b->size < key) {
        smaller.push_back(b);
        continue;
      }
      if (b->expandable) break;
      release(b);
      return true;
    }
    Bytes released = 0;
    for (; !smaller.empty() && released < key && smaller.back()->size >= settings_.max_split_size;
         smaller.pop_back()) {
      if (smaller.back()->expandable) continue;
      released += smaller.back()->size;
      release(smaller.back());
    }
    return released >= key;
  }

  void collect_garbage() {
    const auto threshold =
        static_cast<Bytes>(settings_.garbage_collection_threshold * static_cast<double>(limit_));
    if (total_ <= threshold) return;
    const Bytes target = total_ - threshold;
    Bytes reclaimed = 0;
    for (bool freed = true; reclaimed < target && freed;) {
      freed = false;
      std::vector<Block*> candidates;
      std::int64_t sum = 0;
      for (Block* b : ordered(false)) {
        if (b->split() || b->expandable) continue;
        candidates.push_back(b);
        sum += searches_[false] - b->base;
      }
      for (Block* b : candidates) {
        // age >= sum / count, in whole numbers
        if ((searches_[false] - b->base) * static_cast<std::int64_t>(candidates.size()) < sum) continue;
        reclaimed += b->size;
        release(b);
        freed = true;
      }
    }
  }

  AllocatorSettings settings_;
  Device& device_;
  Bytes limit_ = kUnlimited, total_ = 0;
  std::map<bool, std::int64_t> searches_;
  std::map<Stream, std::deque<std::pair<EventToken, Block*>>> queues_;
};

}  // namespace headroom::allocator::test

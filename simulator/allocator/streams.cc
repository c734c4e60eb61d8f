#include <algorithm>

#include "simulator/allocator/caching_allocator.h"

namespace headroom::allocator {

void CachingAllocator::record_stream(BlockId id, Stream user) {
  if (id == kNullBlock || user == stream(id)) return;
  std::vector<StreamUse>& uses = stream_uses_[id];
  const bool known =
      std::any_of(uses.begin(), uses.end(), [&](const StreamUse& use) { return use.stream == user; });
  if (!known) uses.push_back({.stream = user, .inside_scope = !scopes_.empty()});
  blocks_[id].other_streams = true;
}

// Other streams may still use the block: it stays active until their events are done.
void CachingAllocator::free_later(BlockId id) {
  Block& block = blocks_[id];
  counters_.count_active_apart();
  counters_.free(list_of(block).half_index, block.size);
  block.state = BlockState::pending;
  events_pending_ = true;
  if (scopes_.empty()) {
    queue_events(id);
  } else {
    deferred_.push_back(id);
  }
}

// One event on every stream that used the block; it completes when all are done.
void CachingAllocator::queue_events(BlockId id) {
  auto uses = stream_uses_.extract(id);
  blocks_[id].other_streams = false;
  for (const StreamUse& use : uses.mapped())
    events_[use.stream].emplace_back(device_.record_event(use.stream), id);
  events_outstanding_[id] = static_cast<int>(uses.mapped().size());
}

// Frees that a scope held up get their events now; uses recorded only inside the scope are over with it.
void CachingAllocator::queue_deferred() {
  for (const BlockId id : std::exchange(deferred_, {})) {
    std::erase_if(stream_uses_[id], [](const StreamUse& use) { return use.inside_scope; });
    if (!stream_uses_[id].empty()) {
      queue_events(id);
      continue;
    }
    stream_uses_.erase(id);
    blocks_[id].other_streams = false;
    complete(id);
  }
}

void CachingAllocator::event_done(BlockId id) {
  const auto outstanding = events_outstanding_.find(id);
  if (--outstanding->second > 0) return;
  events_outstanding_.erase(outstanding);
  complete(id);
}

std::vector<Stream> CachingAllocator::queue_order() const {
  std::vector<Stream> order;
  for (const auto& [stream, events] : events_) order.push_back(stream);
  if (!queues_ascending_) std::reverse(order.begin(), order.end());
  return order;
}

void CachingAllocator::process_events() {
  queue_deferred();
  for (const Stream stream : queue_order()) {
    auto& events = events_[stream];
    while (!events.empty() && device_.event_done(events.front().first)) {
      const BlockId id = events.front().second;
      events.pop_front();
      event_done(id);
    }
  }
  std::erase_if(events_, [](const auto& queue) { return queue.second.empty(); });
  events_pending_ = !events_.empty();
}

// Waits for every event, or for those of one pool's blocks.
void CachingAllocator::wait_for_events(const Pool* only) {
  ++counts_.num_sync_all_streams;
  queue_deferred();
  for (const Stream stream : queue_order()) {
    std::deque<std::pair<EventToken, BlockId>> left;
    for (const auto& [event, id] : std::exchange(events_[stream], {})) {
      if (only != nullptr && half_of(blocks_[id]).pool != only) {
        left.emplace_back(event, id);
        continue;
      }
      device_.wait_event(event);
      event_done(id);
    }
    events_[stream] = std::move(left);
  }
  std::erase_if(events_, [](const auto& queue) { return queue.second.empty(); });
  events_pending_ = !events_.empty();
}

}  // namespace headroom::allocator

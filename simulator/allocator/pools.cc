#include <algorithm>
#include <cassert>

#include "simulator/allocator/caching_allocator.h"

namespace headroom::allocator {

CachingAllocator::Pool& CachingAllocator::new_pool(PoolId id) {
  auto pool = std::make_unique<Pool>();
  pool->id = id;
  for (HalfIndex half : {kSmall, kLarge}) {
    pool->halves[half].pool = pool.get();
    pool->halves[half].index = half;
  }
  return *pools_.emplace(id, std::move(pool)).first->second;
}

CachingAllocator::FreeList& CachingAllocator::new_list(Half& half, Stream stream) {
  if (half.lists.size() <= stream) half.lists.resize(stream + 1, nullptr);
  std::uint16_t index;
  if (unused_lists_.empty()) {
    index = static_cast<std::uint16_t>(lists_.size());
    assert(lists_.size() < 65536);
    lists_.emplace_back();
  } else {
    index = unused_lists_.back();
    unused_lists_.pop_back();
  }
  lists_[index] = std::make_unique<FreeList>();
  FreeList& list = *lists_[index];
  list.half = &half;
  list.stream = stream;
  list.index = index;
  list.half_index = half.index;
  list.no_split = half.pool->options.no_split;
  list.may_expand = half.pool->options.device == nullptr;
  half.lists[stream] = &list;
  if (half.pool == default_pool_ && stream < kNearStreams) near_lists_[half.index][stream] = &list;
  return list;
}

void CachingAllocator::drop_pool(Pool& pool) {
  for (const Half& half : pool.halves) {
    for (const FreeList* list : half.lists) {
      if (list == nullptr) continue;
      const std::uint16_t index = list->index;
      lists_[index].reset();
      unused_lists_.push_back(index);
    }
  }
  pools_.erase(pool.id);
}

// The newest scope that accepts the stream decides.
CachingAllocator::Pool& CachingAllocator::pool_for(Stream stream) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (!scope->only || *scope->only == stream) return *pools_.at(scope->pool);
  return *default_pool_;
}

PoolId CachingAllocator::create_pool(const PrivatePoolOptions& options) {
  Pool& pool = new_pool(next_pool_++);
  pool.options = options;
  pool.users = 1;
  return pool.id;
}

void CachingAllocator::begin_pool(PoolId pool, std::optional<Stream> only) {
  ++pools_.at(pool)->users;
  scopes_.push_back({.pool = pool, .only = only});
}

void CachingAllocator::end_pool(PoolId pool) {
  const auto scope =
      std::find_if(scopes_.rbegin(), scopes_.rend(), [&](const Scope& s) { return s.pool == pool; });
  assert(scope != scopes_.rend());
  scopes_.erase(std::next(scope).base());
}

void CachingAllocator::release_pool(PoolId pool) {
  assert(pools_.at(pool)->users > 0);
  --pools_.at(pool)->users;
}

std::uint64_t CachingAllocator::handle(Stream stream) const {
  return stream < handles_.size() ? handles_[stream] : stream;
}

void CachingAllocator::set_stream_handle(Stream stream, std::uint64_t value) {
  for (auto next = static_cast<Stream>(handles_.size()); next <= stream; ++next) handles_.push_back(next);
  handles_[stream] = value;
}

std::vector<CachingAllocator::FreeList*> CachingAllocator::by_handle(const Half& half) const {
  std::vector<FreeList*> lists;
  std::copy_if(half.lists.begin(), half.lists.end(), std::back_inserter(lists),
               [](auto* list) { return list != nullptr; });
  std::stable_sort(lists.begin(), lists.end(), [this](const FreeList* a, const FreeList* b) {
    return handle(a->stream) < handle(b->stream);
  });
  return lists;
}

void CachingAllocator::update_modes() {
  expandable_ = settings_.expandable_segments;
  max_split_size_ = settings_.max_split_size;
  plain_rounding_ =
      std::all_of(settings_.roundup_power2_divisions.begin(), settings_.roundup_power2_divisions.end(),
                  [](int divisions) { return divisions <= 1; });
  gc_tracking_ = limit_ != kUnlimited && settings_.garbage_collection_threshold > 0;
}

void CachingAllocator::set_memory_fraction(double fraction) {
  limit_ =
      fraction < 1 ? static_cast<Bytes>(fraction * static_cast<double>(device_.total_memory())) : kUnlimited;
  update_modes();
}

std::optional<Bytes> CachingAllocator::limit() const {
  return limit_ == kUnlimited ? std::nullopt : std::optional<Bytes>(limit_);
}

void CachingAllocator::change_settings(const AllocatorSettings& settings) {
  settings_ = settings;
  update_modes();
  if (settings.per_process_memory_fraction) set_memory_fraction(*settings.per_process_memory_fraction);
}

std::vector<SegmentView> CachingAllocator::segments() const {
  std::vector<SegmentView> views;
  for (const Segment& segment : segments_) {
    if (!segment.used) continue;
    const FreeList& list = *lists_[blocks_[segment.first].list];
    SegmentView view{.ordinal = segment.ordinal,
                     .address = segment.address,
                     .size = segment.size,
                     .stream = list.stream,
                     .pool = list.half->pool->id,
                     .small = list.half->index == kSmall,
                     .expandable = segment.expandable,
                     .blocks = {}};
    for (BlockId id = segment.first; id != 0; id = blocks_[id].next) {
      const Block& block = blocks_[id];
      view.blocks.push_back({.id = id,
                             .address = block.address,
                             .size = block.size,
                             .requested = block.requested,
                             .state = block.state});
    }
    views.push_back(std::move(view));
  }
  std::sort(views.begin(), views.end(), [](const auto& a, const auto& b) { return a.ordinal < b.ordinal; });
  return views;
}

std::vector<BlockId> CachingAllocator::free_blocks(PoolId pool, bool small, Stream stream) const {
  std::vector<BlockId> ids;
  const auto found = pools_.find(pool);
  if (found == pools_.end()) return ids;
  const auto& lists = found->second->halves[small ? kSmall : kLarge].lists;
  if (stream >= lists.size() || lists[stream] == nullptr) return ids;
  const FreeBlocks& free = lists[stream]->free;
  for (BlockId id = free.first(); id != 0; id = free.successor(blocks_.data(), id)) ids.push_back(id);
  return ids;
}

std::size_t CachingAllocator::footprint() const {
  std::size_t bytes = blocks_.bytes() + segments_.capacity() * sizeof(Segment);
  for (const auto& list : lists_) bytes += list != nullptr ? sizeof(FreeList) : 0;
  return bytes;
}

}  // namespace headroom::allocator

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "simulator/allocator/block.h"
#include "simulator/allocator/device.h"
#include "simulator/allocator/free_blocks.h"
#include "simulator/allocator/observer.h"
#include "simulator/allocator/out_of_memory.h"
#include "simulator/allocator/settings.h"
#include "simulator/allocator/statistics.h"

namespace headroom::allocator {

/// A pool of segments of its own (CUDA graph, MemPool). 0 is the default pool.
using PoolId = std::uint32_t;
inline constexpr PoolId kDefaultPool = 0;

struct PrivatePoolOptions {
  bool use_on_oom = false;   ///< other requests may take its free blocks before anything is released
  bool no_split = false;     ///< its blocks are handed out whole
  Device* device = nullptr;  ///< a pluggable allocator: native segments from there, never expandable ones
};

/// A free block among equals in different segments; see TieBreaker.
struct TiedBlock {
  BlockId id;
  std::uint64_t segment;  ///< ordinal
  Bytes offset;           ///< in its segment
};

/// Replaces the rule "lowest address" where free blocks of one size and stream lie in different segments, for
/// replaying a recording whose addresses are unknown.
class TieBreaker {
 public:
  virtual ~TieBreaker() = default;
  /// An index into `tied`: the lowest block of each segment, in address order; at least two.
  virtual std::size_t choose(const std::vector<TiedBlock>& tied) = 0;
};

/// A segment and its blocks, as torch.cuda.memory_snapshot() shows them.
struct SegmentView {
  struct BlockView {
    BlockId id;
    Address address;
    Bytes size, requested;
    BlockState state;
  };
  std::uint64_t ordinal;
  Address address;
  Bytes size;  ///< native: of the segment; expandable: of the whole range, mapped or not
  Stream stream;
  PoolId pool;
  bool small, expandable;
  std::vector<BlockView> blocks;
};

/// PyTorch 2.11's CUDA caching allocator of one device and process: the same blocks at the same places, the
/// same segments in the same order and the same statistics, over any Device.
///
/// An allocation or free without a device call takes time logarithmic in the free blocks of one size class,
/// in practice constant; no memory is allocated for it once the block table has grown. A live block takes 64
/// bytes. Not thread-safe. Errors of use (freeing a block twice) are asserted, not reported: callers that
/// read streams of events check them.
class CachingAllocator {
 public:
  /// `device` and `observer` outlive the allocator. A memory fraction in the settings is set.
  CachingAllocator(const AllocatorSettings& settings, Device& device, Observer* observer = nullptr);
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator();

  /// A block of at least `bytes` >= 0 for `stream`. kNullBlock for 0 bytes; kOutOfMemory when there is none,
  /// and then out_of_memory() has the facts.
  BlockId allocate(Bytes bytes, Stream stream = 0);
  /// Gives back a block that allocate returned (kNullBlock: nothing).
  void free(BlockId id);
  /// Another stream uses the block: after its free it stays active until that stream's event is done.
  void record_stream(BlockId id, Stream stream);
  /// torch.cuda.empty_cache(), or with a pool torch's clear of that private pool.
  void empty_cache(PoolId pool = kDefaultPool);

  Address address(BlockId id) const { return blocks_[id].address; }
  Bytes size(BlockId id) const { return blocks_[id].size; }  ///< as counted in allocated()
  Bytes requested(BlockId id) const { return blocks_[id].requested; }
  bool live(BlockId id) const { return id < blocks_.end() && blocks_[id].state == BlockState::allocated; }
  Stream stream(BlockId id) const { return lists_[blocks_[id].list]->stream; }
  /// Segments are numbered in order of their making; an expandable one is its whole range.
  std::uint64_t segment_ordinal(BlockId id) const { return segments_[blocks_[id].segment].ordinal; }
  Bytes segment_offset(BlockId id) const {
    return blocks_[id].address - segments_[blocks_[id].segment].address;
  }

  Bytes allocated() const { return counters_.current(Counters::allocated_bytes); }
  Bytes active() const { return counters_.current(Counters::active_bytes); }
  Bytes reserved() const { return counters_.current(Counters::reserved_bytes); }
  Bytes inactive_split() const { return counters_.current(Counters::inactive_split_bytes); }
  Bytes requested() const { return counters_.current(Counters::requested_bytes); }
  std::int64_t allocation_count() const { return counters_.current(Counters::allocation); }
  Bytes peak_allocated() const { return counters_.peak(Counters::allocated_bytes); }
  Bytes peak_active() const { return counters_.peak(Counters::active_bytes); }
  Bytes peak_reserved() const { return counters_.peak(Counters::reserved_bytes); }
  /// Calls by which memory was got from the device so far, and given back.
  std::int64_t device_gets() const { return counts_.num_device_alloc; }
  std::int64_t device_returns() const { return counts_.num_device_free; }
  MemoryStatistics statistics() const;
  void reset_peak();         ///< every peak restarts from its current value
  void reset_accumulated();  ///< sums of increases and decreases, and num_ counters, restart from 0

  // Stretches of small requests that are left out when they would repeat (simulator/memory/repetition.h).
  /// Whether placements depend on nothing but which blocks live: no garbage collection, no waiting blocks, no
  /// open pool.
  bool repeatable() const { return !gc_tracking_ && !events_pending_ && scopes_.empty(); }
  std::int64_t small_reserved() const { return counters_.current(kSmall, Counters::reserved_bytes); }
  void begin_small_watch() { counters_.begin_watch(kSmall); }
  CounterEffect end_small_watch() { return counters_.end_watch(kSmall); }
  void apply_small(const CounterEffect& effect) { counters_.apply(kSmall, effect); }

  /// The last failed allocation.
  const std::optional<OutOfMemory>& out_of_memory() const { return last_out_of_memory_; }

  /// set_per_process_memory_fraction: reserved memory may reach fraction * total memory (truncated); 1: no
  /// limit.
  void set_memory_fraction(double fraction);
  std::optional<Bytes> limit() const;

  const AllocatorSettings& settings() const { return settings_; }
  /// Settings changed at run time; existing blocks and segments stay as they are.
  void change_settings(const AllocatorSettings& settings);

  /// A stream's raw handle. Segments of different streams are released in the order of handles; default: the
  /// index.
  void set_stream_handle(Stream stream, std::uint64_t handle);
  /// The order in which streams' finished events are processed, a hash map's in PyTorch: from the highest
  /// index down (default, as recorded) or upwards. It decides only how far inactive_split moves on the way.
  void set_event_queues_ascending(bool ascending) { queues_ascending_ = ascending; }
  void set_tie_breaker(TieBreaker* breaker) { tie_breaker_ = breaker; }
  void set_observer(Observer* observer) { observer_ = observer; }

  // Private pools.

  /// A pool with one user: its maker.
  PoolId create_pool(const PrivatePoolOptions& options = {});
  /// From here to end_pool, allocations (of one stream only, if given) come from the pool, which gains a
  /// user. Scopes nest; the newest that accepts a stream serves it. While any scope is open, no event is
  /// processed and nothing is released to make room.
  void begin_pool(PoolId pool, std::optional<Stream> only = std::nullopt);
  void end_pool(PoolId pool);
  /// One user less. A pool without users gives its unused segments back in the next release.
  void release_pool(PoolId pool);

  /// Every segment in order of its making, with its blocks in address order. For snapshots and checks.
  std::vector<SegmentView> segments() const;
  /// The free blocks of one pool, half and stream in the order in which they would be searched. For checks.
  std::vector<BlockId> free_blocks(PoolId pool, bool small, Stream stream) const;
  /// Host memory that the simulation itself takes: blocks, lists and segments.
  std::size_t footprint() const;

 private:
  enum HalfIndex : int { kSmall = 0, kLarge = 1 };

  struct Pool;
  struct FreeList;

  /// One pool's small or large half.
  struct Half {
    Pool* pool = nullptr;
    HalfIndex index = kSmall;
    std::vector<FreeList*> lists;  ///< by stream; null where a stream has none
    std::uint64_t searches = 0;    ///< counted while garbage collection is on
  };
  /// The free and unmapped blocks of one half and stream.
  struct FreeList {
    FreeBlocks free;
    std::vector<BlockId> unmapped;  ///< by address
    Half* half = nullptr;
    Stream stream = 0;
    std::uint16_t index = 0;  ///< in lists_
    bool no_split = false;    ///< of its pool
    bool may_expand = true;   ///< its pool has no device of its own
    HalfIndex half_index = kSmall;
  };
  struct Pool {
    PoolId id = kDefaultPool;
    PrivatePoolOptions options;
    int users = 0;
    int segments = 0;
    Half halves[2];
  };
  struct Segment {
    std::uint64_t ordinal = 0;
    Address address = 0;
    Bytes size = 0;
    BlockId first = 0;  ///< its lowest block: splits and merges keep the lowest block's id
    bool expandable = false;
    bool used = false;
  };
  struct StreamUse {
    Stream stream;
    bool inside_scope;
  };
  struct Scope {
    PoolId pool;
    std::optional<Stream> only;
  };
  struct Request {
    Bytes bytes, rounded, segment;
    Stream stream;
    FreeList* list;
    bool expandable;
  };

  struct Merged {
    BlockId id;
    int merges;
  };

  // The hot path (caching_allocator.cc); find, complete, cut and merge_neighbours are for the cold ones.
  BlockId search(FreeList& list, Bytes rounded, bool expandable);
  BlockId commit(FreeList& list, BlockId id, Bytes rounded, Bytes bytes, bool expandable);
  BlockId split_off(BlockId id, Bytes bytes);
  void become_free(FreeList& list, BlockId id);
  Merged merge_free(FreeList& list, BlockId id);
  void absorb_next(Block* blocks, BlockId id);
  BlockId find(FreeList& list, Bytes rounded, bool expandable);
  void complete(BlockId id);
  BlockId cut(BlockId id, Bytes bytes);
  BlockId merge_neighbours(BlockId id);
  void leave_list(BlockId id);
  FreeList& list_of(const Block& block) { return *lists_[block.list]; }
  Half& half_of(const Block& block) { return *lists_[block.list]->half; }
  void insert_free(FreeList& list, BlockId id) {
    blocks_[id].state = BlockState::free;
    blocks_[id].gc_base = list.half->searches;
    list.free.insert(blocks_.data(), id);
  }

  // Where find's first block is not taken (search.cc).
  BlockId prefer_bounded(const FreeList& list, BlockId id) const;
  BlockId skip_expandable(const FreeList& list, BlockId id) const;
  BlockId break_tie(const FreeList& list, BlockId id);

  // Growth (growth.cc).
  BlockId make_room(const Request& request);
  BlockId obtain(const Request& request, bool retry);
  BlockId obtain_native(const Request& request);
  BlockId obtain_expandable(const Request& request);
  BlockId find_expandable(const Request& request);
  BlockId map(BlockId id, Bytes wanted);
  BlockId reserve_range(FreeList& list);
  BlockId new_segment(FreeList& list, Address address, Bytes size, bool expandable);
  void insert_unmapped(FreeList& list, BlockId id);
  Bytes chunk(const Half& half) const {
    return half.index == kSmall ? kSmallSegment : settings_.large_segment_size;
  }
  BlockId take_from_pools_on_oom(const Request& request);
  BlockId fail(const Request& request);
  BlockId refuse_chunk(const Request& request);
  OutOfMemory facts_of(const Request& request) const;
  BlockId refuse(Bytes bytes, Stream stream);

  // Release (release.cc).
  void release_all(PoolId pool);
  void release_half(Half& half);
  void release_freeable_pools(PoolId only);
  void release_segment(BlockId id);
  void forget_segment(BlockId id);
  void unmap(BlockId id);
  bool release_available(const Request& request);
  void collect_garbage();

  // Streams (streams.cc).
  void free_later(BlockId id);
  void queue_events(BlockId id);
  void queue_deferred();
  void process_events();
  void wait_for_events(const Pool* only);
  std::vector<Stream> queue_order() const;
  void event_done(BlockId id);

  // Pools and lists (pools.cc).
  FreeList& list_for(Pool& pool, HalfIndex half, Stream stream) {
    const std::vector<FreeList*>& lists = pool.halves[half].lists;
    if (stream < lists.size() && lists[stream] != nullptr) return *lists[stream];
    return new_list(pool.halves[half], stream);
  }
  Pool& new_pool(PoolId id);
  FreeList& new_list(Half& half, Stream stream);
  void drop_pool(Pool& pool);
  Pool& pool_for(Stream stream);
  std::vector<FreeList*> by_handle(const Half& half) const;
  Device& device_of(const Pool& pool) {
    return pool.options.device != nullptr ? *pool.options.device : device_;
  }
  std::uint64_t handle(Stream stream) const;
  void update_modes();

  AllocatorSettings settings_;
  Device& device_;
  Observer* observer_ = nullptr;
  TieBreaker* tie_breaker_ = nullptr;

  BlockTable blocks_;
  std::vector<std::unique_ptr<FreeList>> lists_;
  std::vector<std::uint16_t> unused_lists_;
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> unused_segments_;
  std::uint64_t next_ordinal_ = 0;
  std::map<PoolId, std::unique_ptr<Pool>> pools_;
  Pool* default_pool_ = nullptr;
  /// The default pool's lists of the first streams, at hand.
  static constexpr Stream kNearStreams = 8;
  FreeList* near_lists_[2][kNearStreams] = {};
  PoolId next_pool_ = 1;
  std::vector<Scope> scopes_;

  std::map<BlockId, std::vector<StreamUse>> stream_uses_;
  std::map<BlockId, int> events_outstanding_;
  std::map<Stream, std::deque<std::pair<EventToken, BlockId>>> events_;
  std::vector<BlockId> deferred_;
  bool events_pending_ = false;
  bool queues_ascending_ = false;

  bool plain_rounding_ = true;
  bool expandable_ = false;
  Bytes max_split_size_ = kUnlimited;
  bool gc_tracking_ = false;
  Bytes limit_ = kUnlimited;
  Bytes total_ = 0;  ///< bytes held from the device, in all pools

  Counters counters_;
  MemoryStatistics counts_;  ///< all but its pools
  std::optional<OutOfMemory> last_out_of_memory_;
  std::vector<std::uint64_t> handles_;
};

}  // namespace headroom::allocator

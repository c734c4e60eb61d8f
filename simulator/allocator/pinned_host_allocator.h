#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "simulator/allocator/device.h"
#include "simulator/allocator/host_memory.h"
#include "simulator/allocator/settings.h"
#include "simulator/allocator/statistics.h"

namespace headroom::allocator {

/// Names a pinned block while it is in use; 0 is the block of zero bytes.
using PinnedBlockId = std::uint32_t;
inline constexpr PinnedBlockId kNullPinnedBlock = 0;
inline constexpr PinnedBlockId kOutOfHostMemory = 0xFFFFFFFFu;

/// What torch.cuda.host_memory_stats() reports, as PyTorch 2.11 counts it.
struct PinnedStatistics {
  Statistic allocations, allocated_bytes;  ///< blocks held, in use or cached
  /// Requests served. Not what is in use: PyTorch takes off only blocks whose free waited for a copy, one
  /// request and minus one byte each; the peak is the sum of the peaks of every size. See in_use().
  Statistic active_requests, active_bytes;
  std::int64_t num_host_alloc = 0, num_host_free = 0;
};

/// PyTorch 2.11's caching allocator of pinned host memory, one a process.
///
/// A request takes a block of the next power of two. Freed blocks are kept, one list a size, and serve only
/// requests of the same power; they are never split or merged and go back to the system only in empty_cache,
/// so the host memory held is the sum over sizes of the most ever needed at once. Constant time.
///
/// The reserve (pinned_reserve_segment_size_mb) is taken whole at the first request and handed out once, from
/// its start: blocks that empty_cache drops from it are neither given back nor handed out again.
class PinnedHostAllocator {
 public:
  /// `host` and `events` outlive the allocator.
  PinnedHostAllocator(const AllocatorSettings& settings, HostMemory& host, Events& events)
      : settings_(settings), host_(host), events_(events), blocks_(1) {}

  /// A block of at least `bytes` >= 0; kOutOfHostMemory when the host has none left.
  PinnedBlockId allocate(Bytes bytes);
  /// Gives a block back; it is cached once every stream that used it is done.
  void free(PinnedBlockId id);
  /// An asynchronous copy on `stream` uses the block.
  void record_stream(PinnedBlockId id, Stream stream);
  /// torch._C._host_emptyCache(): cached blocks go back to the system. torch.cuda.empty_cache() does not do
  /// this.
  void empty_cache();

  Bytes size(PinnedBlockId id) const { return blocks_[id].size; }
  Address address(PinnedBlockId id) const { return blocks_[id].address; }
  Bytes held() const { return held_; }  ///< host memory taken, with the whole reserve
  Bytes in_use() const { return in_use_; }  ///< in blocks not freed, or whose copies are not done
  PinnedStatistics statistics() const;
  void reset_peak();

 private:
  struct Block {
    Address address = 0;
    Bytes size = 0;
    int events = 0;
    bool reserved = false;        ///< part of the reserve: never given back
    std::vector<Stream> streams;  ///< that used it since it was taken
  };

  /// What serves the sizes between two powers of two.
  struct Bucket {
    std::vector<PinnedBlockId> cached;  ///< newest last
    Statistic active_requests, active_bytes;
  };

  Bucket& bucket(Bytes size);
  std::optional<Address> take_from_host(Bytes bytes);
  PinnedBlockId new_block(Bytes size);
  bool take_from_reserve(Block& block);
  void process_events();
  void keep(PinnedBlockId id);
  void give_back(PinnedBlockId id);

  AllocatorSettings settings_;
  HostMemory& host_;
  Events& events_;
  std::vector<Block> blocks_;
  std::vector<PinnedBlockId> unused_;
  std::array<Bucket, 64> buckets_;  ///< by the exponent of the size's power of two, rounded up
  std::deque<std::pair<EventToken, PinnedBlockId>> pending_;
  Address reserve_ = 0;
  Bytes reserve_left_ = -1;  ///< -1: not taken yet
  Bytes held_ = 0, in_use_ = 0;
  Statistic allocations_, allocated_bytes_;
};

}  // namespace headroom::allocator

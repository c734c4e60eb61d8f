#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "simulator/allocator/settings.h"
#include "simulator/replay/address_map.h"
#include "simulator/replay/snapshot.h"

namespace headroom::replay {

/// The blocks of one device at the addresses of a recorded history. The allocator's choices are taken from
/// the record, only the sizes of blocks follow its rules: a block is its request rounded, and takes what is
/// left of the hole where the allocator would not split it.
///
/// Each event takes constant time, but for expandable segments time linear in the blocks of the run that
/// grows or shrinks. Events that contradict the state before them are errors.
class SnapshotHeap {
 public:
  using Node = std::uint32_t;
  static constexpr Node kNone = 0;

  enum class State : std::uint8_t { unused, free, allocated, pending };

  /// Which free blocks may serve which requests.
  struct Home {
    std::uint16_t stream = 0, pool = 0;  ///< indices of the caller's
    bool small = false, expandable = false;
  };

  struct Block {
    std::int64_t address = 0;
    Bytes size = 0, requested = 0;
    Node previous = kNone, next = kNone;
    StackId stack = 0;
    std::uint32_t born = 0;  ///< event of its allocation; kBeforeStart
    Home home;               ///< of its segment
    State state = State::unused;
    bool homeless = false;  ///< in no known segment
  };
  static constexpr std::uint32_t kBeforeStart = 0xFFFFFFFFu;

  explicit SnapshotHeap(const allocator::AllocatorSettings& settings);

  /// A segment, or the mapped run of an expandable one, as one free block.
  Status add_segment(std::int64_t address, Bytes size, const Home& home);
  /// Removes a native segment, which is one free block.
  Status remove_segment(std::int64_t address, Bytes size);
  /// Expandable segments: memory appears next to, or between, mapped runs, or goes from inside a free block.
  Status map(std::int64_t address, Bytes size, const Home& home);
  Status unmap(std::int64_t address, Bytes size);

  /// `exact` is the block's size where it is known.
  Status allocate(std::int64_t address, Bytes requested, StackId stack, std::uint32_t event,
                  std::optional<Bytes> exact = std::nullopt);
  Status request_free(std::int64_t address);
  Status complete_free(std::int64_t address);

  Bytes allocated() const { return allocated_; }
  Bytes active() const { return active_; }
  Bytes reserved() const { return reserved_; }
  Bytes inactive_split() const { return inactive_split_; }
  std::int64_t live_blocks() const { return live_; }
  /// Allocations outside every known segment: their events were not recorded. Counted in allocated, not in
  /// reserved.
  std::int64_t homeless() const { return homeless_; }

  const allocator::AllocatorSettings& settings() const { return settings_; }
  /// Of the segment at `address`, and the bytes from there to the end of its block; 0 outside all segments.
  Home home_at(std::int64_t address) const;
  Bytes room_at(std::int64_t address) const;

  const Block& block(Node node) const { return blocks_[node]; }
  /// The block that starts at `address`; kNone.
  Node at(std::int64_t address) const;
  /// First blocks of all segments and runs, by address.
  std::vector<Node> segments() const;

 private:
  Node take();
  void give_back(Node node);
  Node containing(std::int64_t address) const;
  bool free_rest(Node node, std::int64_t address);
  bool split_off(Node node, Bytes front);
  Node merge_into(Node left, Node right);
  void count_split(Node node, int sign);
  bool whole(Node node) const { return blocks_[node].previous == kNone && blocks_[node].next == kNone; }
  Bytes block_size(const Block& hole, Bytes requested) const;

  const allocator::AllocatorSettings& settings_;
  std::vector<Block> blocks_;
  std::vector<Node> unused_;
  AddressMap by_address_;
  std::map<std::int64_t, Node> runs_;  ///< first blocks by address
  mutable Node last_found_ = kNone;    ///< where a walk through the same run may begin
  Bytes allocated_ = 0, active_ = 0, reserved_ = 0, inactive_split_ = 0;
  std::int64_t live_ = 0, homeless_ = 0;
};

}  // namespace headroom::replay

#pragma once

#include <cstdint>
#include <vector>

#include "simulator/allocator/device.h"

namespace headroom::allocator {

/// Names a block while it is allocated. A freed block's id may name another block later.
using BlockId = std::uint32_t;

/// What a request of zero bytes gets: no memory, nothing counted; freeing it does nothing.
inline constexpr BlockId kNullBlock = 0;
/// What a request gets that ended out of memory.
inline constexpr BlockId kOutOfMemory = 0xFFFFFFFFu;

enum class BlockState : std::uint8_t {
  none,  ///< an unused slot
  allocated,
  pending,  ///< freed, but other streams may still use it: active until their events are done
  free,
  unmapped,  ///< address space of an expandable segment without memory
};

/// A contiguous part of a segment. One cache line; links are ids, 0 is none.
struct alignas(64) Block {
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;             ///< bytes that the program asked for
  std::uint64_t gc_base = 0;       ///< the pool half's call counter when the block became free
  BlockId previous = 0, next = 0;  ///< neighbours in the segment
  BlockId child[2] = {0, 0};       ///< place among the free blocks: lower, higher
  BlockId parent = 0;
  std::uint32_t priority = 0;  ///< random, of the slot: keeps the tree of free blocks balanced
  std::uint32_t segment = 0;
  std::uint16_t list = 0;  ///< which free list: pool half and stream
  BlockState state = BlockState::none;
  bool expandable : 1 = false;
  bool other_streams : 1 = false;  ///< record_stream named streams that have no event yet
};
static_assert(sizeof(Block) == 64);

/// Blocks by id; slots of absorbed blocks are used again, newest first. Growing moves blocks: hold ids, not
/// references.
class BlockTable {
 public:
  BlockTable() : blocks_(1) {}

  Block* data() { return blocks_.data(); }
  const Block* data() const { return blocks_.data(); }
  Block& operator[](BlockId id) { return blocks_[id]; }
  const Block& operator[](BlockId id) const { return blocks_[id]; }
  std::size_t bytes() const { return blocks_.capacity() * sizeof(Block); }
  BlockId end() const { return static_cast<BlockId>(blocks_.size()); }  ///< ids are below this

  /// A fresh slot; its links and sizes are stale.
  BlockId take() {
    const BlockId id = unused_;
    if (id == 0) [[unlikely]]
      return grow();
    unused_ = blocks_[id].next;
    return id;
  }
  void give_back(BlockId id) {
    blocks_[id].state = BlockState::none;
    blocks_[id].next = unused_;
    unused_ = id;
  }

 private:
  BlockId grow();

  std::vector<Block> blocks_;
  BlockId unused_ = 0;
  std::uint32_t random_ = 0x9E3779B9u;
};

}  // namespace headroom::allocator

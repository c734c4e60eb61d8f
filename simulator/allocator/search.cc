#include <utility>

#include "simulator/allocator/caching_allocator.h"

namespace headroom::allocator {
namespace {

// A free block before unmapped space counts as if it had grown into all of it.
Bytes grown(const Block* blocks, const Block& block) {
  const Block& next = blocks[block.next];
  return block.size + (next.state == BlockState::unmapped ? next.size : 0);
}

}  // namespace

// Expandable mode prefers a larger but bounded hole to a block that could grow. It steps from block to block
// and stops at the first that does not improve.
BlockId CachingAllocator::prefer_bounded(const FreeList& list, BlockId id) const {
  const Block* blocks = blocks_.data();
  while (blocks[id].expandable && blocks[blocks[id].next].state == BlockState::unmapped) {
    const BlockId following = list.free.successor(blocks, id);
    if (following == 0 || grown(blocks, blocks[following]) >= grown(blocks, blocks[id])) break;
    id = following;
  }
  return id;
}

// With expandable segments switched off, blocks of old ranges serve no new requests.
BlockId CachingAllocator::skip_expandable(const FreeList& list, BlockId id) const {
  const Block* blocks = blocks_.data();
  while (id != 0 && blocks[id].expandable) id = list.free.successor(blocks, id);
  return id;
}

BlockId CachingAllocator::break_tie(const FreeList& list, BlockId id) {
  const Block* blocks = blocks_.data();
  std::vector<TiedBlock> tied;
  std::vector<std::uint32_t> seen;
  for (BlockId node = id; node != 0 && blocks[node].size == blocks[id].size;
       node = list.free.successor(blocks, node)) {
    if (std::find(seen.begin(), seen.end(), blocks[node].segment) != seen.end()) continue;
    seen.push_back(blocks[node].segment);
    tied.push_back({.id = node, .segment = segment_ordinal(node), .offset = segment_offset(node)});
  }
  return tied.size() > 1 ? tied[tie_breaker_->choose(tied)].id : id;
}

// Takes a free or unmapped block out of its list.
void CachingAllocator::leave_list(BlockId id) {
  FreeList& list = list_of(blocks_[id]);
  if (blocks_[id].state == BlockState::free) {
    list.free.erase(blocks_.data(), id);
  } else {
    std::erase(list.unmapped, id);
  }
}

}  // namespace headroom::allocator

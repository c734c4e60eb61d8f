#include "simulator/allocator/block.h"

namespace headroom::allocator {

// By a quarter, not by doubling: a table is never much larger than its blocks.
BlockId BlockTable::grow() {
  if (blocks_.size() == blocks_.capacity()) blocks_.reserve(blocks_.size() + blocks_.size() / 4 + 16);
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  blocks_.emplace_back().priority = random_;
  return static_cast<BlockId>(blocks_.size() - 1);
}

}  // namespace headroom::allocator

#include "simulator/allocator/block.h"

namespace headroom::allocator {

BlockId BlockTable::grow() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  blocks_.emplace_back().priority = random_;
  return static_cast<BlockId>(blocks_.size() - 1);
}

}  // namespace headroom::allocator

#include "simulator/allocator/free_blocks.h"

namespace headroom::allocator {

// As a leaf first, then upwards until its parent has the higher priority.
void FreeBlocks::insert_below(Block* blocks, BlockId& top, BlockId id) {
  const Block& block = blocks[id];
  BlockId parent = top;
  for (;;) {
    const bool left = before(block, blocks[parent]);
    BlockId& child = left ? blocks[parent].left : blocks[parent].right;
    if (child == 0) {
      child = id;
      break;
    }
    parent = child;
  }
  blocks[id].parent = parent;
  while (blocks[id].parent != 0 && blocks[blocks[id].parent].priority < block.priority)
    rotate_up(blocks, top, id);
}

// Swaps a node with its parent, keeping the order.
void FreeBlocks::rotate_up(Block* blocks, BlockId& top, BlockId id) {
  const BlockId parent = blocks[id].parent;
  const BlockId grandparent = blocks[parent].parent;
  BlockId moved;
  if (blocks[parent].left == id) {
    moved = blocks[id].right;
    blocks[parent].left = moved;
    blocks[id].right = parent;
  } else {
    moved = blocks[id].left;
    blocks[parent].right = moved;
    blocks[id].left = parent;
  }
  if (moved != 0) blocks[moved].parent = parent;
  blocks[parent].parent = id;
  blocks[id].parent = grandparent;
  if (grandparent == 0) {
    top = id;
  } else if (blocks[grandparent].left == parent) {
    blocks[grandparent].left = id;
  } else {
    blocks[grandparent].right = id;
  }
}

void FreeBlocks::erase(Block* blocks, BlockId id) {
  const Block& block = blocks[id];
  const Class c = class_of(block.size);
  BlockId& top = root(c);
  while (block.left != 0 && block.right != 0) {
    const bool left = blocks[block.left].priority > blocks[block.right].priority;
    rotate_up(blocks, top, left ? block.left : block.right);
  }
  const BlockId child = block.left != 0 ? block.left : block.right;
  if (child != 0) blocks[child].parent = block.parent;
  if (block.parent != 0) {
    Block& parent = blocks[block.parent];
    (parent.left == id ? parent.left : parent.right) = child;
  } else {
    top = child;
    if (child == 0) unmark(c);
  }
}

BlockId FreeBlocks::first(const Block* blocks) const {
  if (summary_ == 0) return 0;
  const std::uint32_t word = bit_index(summary_);
  return leftmost(blocks, root({word, bit_index(bits_[word])}));
}

BlockId FreeBlocks::last(const Block* blocks) const {
  if (summary_ == 0) return 0;
  const auto word = static_cast<std::uint32_t>(63 - std::countl_zero(summary_));
  return rightmost(blocks, root({word, static_cast<std::uint32_t>(63 - std::countl_zero(bits_[word]))}));
}

BlockId FreeBlocks::successor(const Block* blocks, BlockId id) const {
  if (blocks[id].right != 0) return leftmost(blocks, blocks[id].right);
  BlockId node = id;
  while (blocks[node].parent != 0 && blocks[blocks[node].parent].right == node) node = blocks[node].parent;
  if (blocks[node].parent != 0) return blocks[node].parent;
  return first_above(blocks, class_of(blocks[id].size));
}

BlockId FreeBlocks::predecessor(const Block* blocks, BlockId id) const {
  if (blocks[id].left != 0) return rightmost(blocks, blocks[id].left);
  BlockId node = id;
  while (blocks[node].parent != 0 && blocks[blocks[node].parent].left == node) node = blocks[node].parent;
  if (blocks[node].parent != 0) return blocks[node].parent;
  const Class c = class_of(blocks[id].size);
  const std::uint64_t here = bits_[c.word] & ((std::uint64_t{1} << c.bit) - 1);
  if (here != 0) {
    return rightmost(blocks, root({c.word, static_cast<std::uint32_t>(63 - std::countl_zero(here))}));
  }
  const std::uint64_t below = summary_ & ((std::uint64_t{1} << c.word) - 1);
  if (below == 0) return 0;
  const auto word = static_cast<std::uint32_t>(63 - std::countl_zero(below));
  return rightmost(blocks, root({word, static_cast<std::uint32_t>(63 - std::countl_zero(bits_[word]))}));
}

}  // namespace headroom::allocator

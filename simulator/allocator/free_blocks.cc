#include "simulator/allocator/free_blocks.h"

namespace headroom::allocator {

// Searched for from the lowest block upwards: what is taken and given back is near it, however many there
// are.
void FreeBlocks::insert_inside(Block* blocks, Tree& tree, BlockId id) {
  Block& block = blocks[id];
  BlockId parent = tree.lowest;
  while (blocks[parent].parent != 0 && !before(block, blocks[blocks[parent].parent]))
    parent = blocks[parent].parent;
  for (;;) {
    BlockId& child = blocks[parent].child[before(block, blocks[parent]) ? 0 : 1];
    if (child == 0) {
      child = id;
      break;
    }
    parent = child;
  }
  block.parent = parent;
  rise(blocks, tree, id);
}

void FreeBlocks::rise(Block* blocks, Tree& tree, BlockId id) {
  const Block& block = blocks[id];
  while (block.parent != 0 && blocks[block.parent].priority < block.priority)
    rotate_up(blocks, tree.root, id);
}

// Swaps a node with its parent, keeping the order.
void FreeBlocks::rotate_up(Block* blocks, BlockId& top, BlockId id) {
  Block& node = blocks[id];
  const BlockId parent_id = node.parent;
  Block& parent = blocks[parent_id];
  const BlockId grandparent = parent.parent;
  const int side = parent.child[1] == id ? 1 : 0;
  const BlockId moved = node.child[1 - side];
  parent.child[side] = moved;
  node.child[1 - side] = parent_id;
  if (moved != 0) blocks[moved].parent = parent_id;
  parent.parent = id;
  node.parent = grandparent;
  if (grandparent == 0) {
    top = id;
  } else {
    BlockId* children = blocks[grandparent].child;
    children[children[1] == parent_id ? 1 : 0] = id;
  }
}

BlockId FreeBlocks::first() const {
  if (summary_ == 0) return 0;
  const std::uint32_t word = bit_index(summary_);
  return tree_of({word, bit_index(bits_[word])}).lowest;
}

BlockId FreeBlocks::last(const Block* blocks) const {
  return last_in(blocks, summary_);
}

// The last block of the words of a part of the summary.
BlockId FreeBlocks::last_in(const Block* blocks, std::uint64_t words) const {
  if (words == 0) return 0;
  const std::uint32_t word = highest_bit(words);
  return outermost(blocks, tree_of({word, highest_bit(bits_[word])}).root, 1);
}

// The next node of the same class in one direction; 0: none.
BlockId FreeBlocks::neighbour(const Block* blocks, BlockId id, int direction) {
  if (blocks[id].child[direction] != 0) return outermost(blocks, blocks[id].child[direction], 1 - direction);
  BlockId node = id;
  while (blocks[node].parent != 0 && blocks[blocks[node].parent].child[direction] == node)
    node = blocks[node].parent;
  return blocks[node].parent;
}

BlockId FreeBlocks::successor(const Block* blocks, BlockId id) const {
  const BlockId next = neighbour(blocks, id, 1);
  return next != 0 ? next : first_above(class_of(blocks[id].size));
}

BlockId FreeBlocks::predecessor(const Block* blocks, BlockId id) const {
  if (const BlockId next = neighbour(blocks, id, 0); next != 0) return next;
  const Class c = class_of(blocks[id].size);
  const std::uint64_t here = bits_[c.word] & ((std::uint64_t{1} << c.bit) - 1);
  if (here != 0) return outermost(blocks, tree_of({c.word, highest_bit(here)}).root, 1);
  return last_in(blocks, summary_ & ((std::uint64_t{1} << c.word) - 1));
}

}  // namespace headroom::allocator

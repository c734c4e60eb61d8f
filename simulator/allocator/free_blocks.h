#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "simulator/allocator/block.h"
#include "simulator/allocator/settings.h"

namespace headroom::allocator {

/// The free blocks of one pool half and stream, ordered by (size, address): PyTorch's ordered set of free
/// blocks.
///
/// Sizes fall into classes: exact below 64 KiB, then 64 a power of two. Each non-empty class has one bit, so
/// the next larger one is found with two bit scans, and holds its blocks in a treap linked through the blocks
/// themselves. Most classes hold one or two blocks, where every operation takes constant time; else it is
/// logarithmic in the class. Nothing is allocated. Block sizes are multiples of 512 below 2^61.
class FreeBlocks {
 public:
  bool empty() const { return summary_ == 0; }

  /// The first block of at least `size`: the smallest such size, lowest address. 0: none.
  BlockId first_at_least(const Block* blocks, Bytes size) const {
    const Class wanted = class_of(size);
    const Tree& tree = tree_of(wanted);
    if (blocks[tree.lowest].size >= size) return tree.lowest;  // of no block: 0
    BlockId best = 0;
    for (BlockId node = tree.root; node != 0;) {
      const bool fits = blocks[node].size >= size;
      best = fits ? node : best;
      node = blocks[node].child[fits ? 0 : 1];
    }
    if (best != 0) return best;
    return first_above(wanted);
  }

  void insert(Block* blocks, BlockId id);
  void erase(Block* blocks, BlockId id);

  BlockId first() const;
  BlockId last(const Block* blocks) const;
  /// The block after or before `id` in order; 0 at the end.
  BlockId successor(const Block* blocks, BlockId id) const;
  BlockId predecessor(const Block* blocks, BlockId id) const;

 private:
  struct Class {
    std::uint32_t word, bit;
  };
  struct Tree {
    BlockId root = 0, lowest = 0;
  };
  static constexpr int kWords = 48;

  static Class class_of(Bytes size) {
    const auto units = static_cast<std::uint64_t>(size) / kMinBlock;
    const auto word = static_cast<std::uint32_t>(std::bit_width(units | 63)) - 6;
    const std::uint32_t shift = word - (word != 0 ? 1 : 0);
    return {word, static_cast<std::uint32_t>(units >> shift) & 63};
  }
  Tree& tree_of(Class c) { return trees_[c.word * 64 + c.bit]; }
  const Tree& tree_of(Class c) const { return trees_[c.word * 64 + c.bit]; }

  BlockId first_above(Class c) const {
    const std::uint64_t here = bits_[c.word] & (~std::uint64_t{1} << c.bit);
    if (here != 0) return tree_of({c.word, bit_index(here)}).lowest;
    const std::uint64_t above = summary_ & (~std::uint64_t{1} << c.word);
    if (above == 0) return 0;
    const std::uint32_t word = bit_index(above);
    return tree_of({word, bit_index(bits_[word])}).lowest;
  }
  static std::uint32_t bit_index(std::uint64_t bits) {
    return static_cast<std::uint32_t>(std::countr_zero(bits));
  }
  /// The last node in one direction: 0 the lowest, 1 the highest below `node`.
  static BlockId outermost(const Block* blocks, BlockId node, int direction) {
    while (blocks[node].child[direction] != 0) node = blocks[node].child[direction];
    return node;
  }
  /// In the order within a class; without branches, since neither outcome is likelier.
  static bool before(const Block& a, const Block& b) {
    return (a.size < b.size) | ((a.size == b.size) & (a.address < b.address));
  }
  static std::uint32_t highest_bit(std::uint64_t bits) {
    return static_cast<std::uint32_t>(63 - std::countl_zero(bits));
  }
  BlockId last_in(const Block* blocks, std::uint64_t words) const;
  static BlockId neighbour(const Block* blocks, BlockId id, int direction);
  static void insert_inside(Block* blocks, Tree& tree, BlockId id);
  static void rise(Block* blocks, Tree& tree, BlockId id);
  static void rotate_up(Block* blocks, BlockId& top, BlockId id);
  void mark(Class c) {
    bits_[c.word] |= std::uint64_t{1} << c.bit;
    summary_ |= std::uint64_t{1} << c.word;
  }
  void unmark(Class c) {
    bits_[c.word] &= ~(std::uint64_t{1} << c.bit);
    if (bits_[c.word] == 0) summary_ &= ~(std::uint64_t{1} << c.word);
  }

  std::uint64_t summary_ = 0;                 ///< bit w: bits_[w] is not 0
  std::array<std::uint64_t, kWords> bits_{};  ///< word: power of two, bit: its 64th part
  std::array<Tree, kWords * 64> trees_{};
};

// As a leaf first, then upwards until its parent has the higher priority.
inline void FreeBlocks::insert(Block* blocks, BlockId id) {
  Block& block = blocks[id];
  block.child[0] = block.child[1] = block.parent = 0;
  const Class c = class_of(block.size);
  Tree& tree = tree_of(c);
  if (tree.root == 0) {
    tree.root = tree.lowest = id;
    mark(c);
  } else if (before(block, blocks[tree.lowest])) {
    block.parent = tree.lowest;
    blocks[tree.lowest].child[0] = id;
    tree.lowest = id;
    if (blocks[block.parent].priority < block.priority) rise(blocks, tree, id);
  } else {
    insert_inside(blocks, tree, id);
  }
}

inline void FreeBlocks::erase(Block* blocks, BlockId id) {
  const Block& block = blocks[id];
  const Class c = class_of(block.size);
  Tree& tree = tree_of(c);
  while (block.child[0] != 0 && block.child[1] != 0) {
    const bool higher = blocks[block.child[0]].priority < blocks[block.child[1]].priority;
    rotate_up(blocks, tree.root, block.child[higher ? 1 : 0]);
  }
  const BlockId child = block.child[0] | block.child[1];
  // The lowest block has no lower child: the next one is below its higher child, or its parent.
  if (tree.lowest == id) tree.lowest = child != 0 ? outermost(blocks, child, 0) : block.parent;
  if (child != 0) blocks[child].parent = block.parent;
  if (block.parent != 0) {
    Block& parent = blocks[block.parent];
    parent.child[parent.child[1] == id ? 1 : 0] = child;
  } else {
    tree.root = child;
    if (child == 0) unmark(c);
  }
}

}  // namespace headroom::allocator

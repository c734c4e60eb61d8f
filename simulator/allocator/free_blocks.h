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
    if ((bits_[wanted.word] >> wanted.bit & 1) != 0) {
      BlockId best = 0;
      for (BlockId node = root(wanted); node != 0;) {
        const bool fits = blocks[node].size >= size;
        best = fits ? node : best;
        node = fits ? blocks[node].left : blocks[node].right;
      }
      if (best != 0) return best;
    }
    return first_above(blocks, wanted);
  }

  void insert(Block* blocks, BlockId id);
  void erase(Block* blocks, BlockId id);

  BlockId first(const Block* blocks) const;
  BlockId last(const Block* blocks) const;
  /// The block after or before `id` in order; 0 at the end.
  BlockId successor(const Block* blocks, BlockId id) const;
  BlockId predecessor(const Block* blocks, BlockId id) const;

 private:
  struct Class {
    std::uint32_t word, bit;
  };
  static constexpr int kWords = 48;

  static Class class_of(Bytes size) {
    const auto units = static_cast<std::uint64_t>(size) / kMinBlock;
    const auto word = static_cast<std::uint32_t>(std::bit_width(units | 63)) - 6;
    const std::uint32_t shift = word - (word != 0 ? 1 : 0);
    return {word, static_cast<std::uint32_t>(units >> shift) & 63};
  }
  std::uint32_t& root(Class c) { return roots_[c.word * 64 + c.bit]; }
  BlockId root(Class c) const { return roots_[c.word * 64 + c.bit]; }

  BlockId first_above(const Block* blocks, Class c) const {
    const std::uint64_t here = bits_[c.word] & (~std::uint64_t{1} << c.bit);
    if (here != 0) return leftmost(blocks, root({c.word, bit_index(here)}));
    const std::uint64_t above = summary_ & (~std::uint64_t{1} << c.word);
    if (above == 0) return 0;
    const std::uint32_t word = bit_index(above);
    return leftmost(blocks, root({word, bit_index(bits_[word])}));
  }
  static std::uint32_t bit_index(std::uint64_t bits) {
    return static_cast<std::uint32_t>(std::countr_zero(bits));
  }
  static BlockId leftmost(const Block* blocks, BlockId node) {
    while (blocks[node].left != 0) node = blocks[node].left;
    return node;
  }
  static BlockId rightmost(const Block* blocks, BlockId node) {
    while (blocks[node].right != 0) node = blocks[node].right;
    return node;
  }
  static bool before(const Block& a, const Block& b) {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }
  void insert_below(Block* blocks, BlockId& top, BlockId id);
  void rotate_up(Block* blocks, BlockId& top, BlockId id);
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
  std::array<BlockId, kWords * 64> roots_{};
};

inline void FreeBlocks::insert(Block* blocks, BlockId id) {
  Block& block = blocks[id];
  block.left = block.right = block.parent = 0;
  const Class c = class_of(block.size);
  BlockId& top = root(c);
  if (top == 0) {
    top = id;
    mark(c);
  } else {
    insert_below(blocks, top, id);
  }
}

}  // namespace headroom::allocator

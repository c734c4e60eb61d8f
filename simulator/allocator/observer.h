#pragma once

#include "simulator/allocator/block.h"

namespace headroom::allocator {

struct OutOfMemory;

/// Sees what the allocator does, in PyTorch's order of trace entries. Without one, nothing is paid but one
/// test. Every function does nothing by default.
class Observer {
 public:
  virtual ~Observer() = default;

  virtual void segment_alloc(Address, Bytes /*size*/, Stream) {}
  virtual void segment_free(Address, Bytes /*size*/, Stream) {}
  virtual void segment_map(Address, Bytes /*size*/, Stream) {}
  virtual void segment_unmap(Address, Bytes /*size*/, Stream) {}
  /// A block was handed out; `requested` is what the program asked for.
  virtual void alloc(BlockId, Address, Bytes /*requested*/, Stream) {}
  virtual void free_requested(BlockId, Address, Bytes /*requested*/, Stream) {}
  /// The block is free again: with free_requested, or later when other streams had used it.
  virtual void free_completed(BlockId, Address, Bytes /*requested*/, Stream) {}
  virtual void out_of_memory(const OutOfMemory&) {}
};

}  // namespace headroom::allocator

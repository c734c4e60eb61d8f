#pragma once

#include <optional>
#include <string>

#include "simulator/allocator/device.h"

namespace headroom::allocator {

/// The facts of one failed allocation, as torch.OutOfMemoryError states them (its lines about other processes
/// aside).
struct OutOfMemory {
  Bytes requested = 0;  ///< bytes that the program asked for
  Bytes rounded = 0;    ///< the block it needed: the size of the `oom` trace entry
  Bytes tried = 0;      ///< the segment it needed: the size in PyTorch's message
  Stream stream = 0;
  int device = 0;
  Bytes device_total = 0;
  Bytes device_free = 0;
  Bytes process = 0;           ///< device memory of this process, in and outside of the allocator
  std::optional<Bytes> limit;  ///< of the memory fraction
  Bytes allocated = 0;         ///< in blocks handed out
  Bytes reserved = 0;
  Bytes private_pools = 0;           ///< cached, free, in private pools
  bool expandable_segments = false;  ///< of the settings
  /// Not 0: memory was not the reason. The driver maps no chunks of this size, not a multiple of its pages
  /// (large_segment_size_mb); PyTorch raises `CUDA driver error: invalid argument` and counts nothing.
  Bytes refused_chunk = 0;

  /// Reserved, but neither handed out nor in a private pool.
  Bytes unallocated() const { return reserved - allocated - private_pools; }
  /// What PyTorch calls allocated here: with the cached blocks of private pools.
  Bytes allocated_with_pools() const { return allocated + private_pools; }
  /// One clause a fact, sizes with two decimals in binary units.
  std::string message() const;
};

}  // namespace headroom::allocator

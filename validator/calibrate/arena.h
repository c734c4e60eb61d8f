#pragma once

#include "validator/cuda/handles.h"

namespace headroom::gpu {

/// One large block of random bf16 numbers from which measurements cut their tensors. Consecutive runs take
/// different places, so that repeated work does not come out of the L2 cache.
class Arena {
 public:
  static Result<Arena> create(Bytes bytes);

  /// The place for tensor `slot` of `bytes` in run `run`: slots do not overlap within a run as long as
  /// slots * bytes fits. 256-byte aligned.
  void* place(int run, int slots, int slot, Bytes bytes) const;
  Bytes size() const { return bytes_; }

 private:
  Arena(DeviceBlock block, Bytes bytes) : block_(std::move(block)), bytes_(bytes) {}
  DeviceBlock block_;
  Bytes bytes_;
};

}  // namespace headroom::gpu

#pragma once

#include <cstdint>

#include "simulator/device/process.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/step.h"

namespace headroom {

/// A training process's memory outside its allocator, as it grows: the context and its communicators from the
/// start; the code of PyTorch's kernels when the first of their kind runs; the cuBLAS handle with the first
/// matrix product. Nothing of it is ever given back.
class OutsideGrowth {
 public:
  /// `communicators`: groups of `ranks` ranks that the process uses; 0: none.
  OutsideGrowth(const Hardware& hardware, std::int64_t communicators, std::int64_t ranks);

  /// `action` is about to run: takes what it needs for the first time.
  void begin(const Action& action);
  const OutsideAllocator& now() const { return now_; }

 private:
  KernelModules unloaded_;
  Bytes cublas_handle_;
  OutsideAllocator now_;
};

}  // namespace headroom

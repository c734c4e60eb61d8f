#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// torch.autocast for a C++ scope. Casts of fp32 leaves that require gradients are kept until the outermost
/// region ends (then released in the order of their making; PyTorch's order there is that of a hash map).
class Autocast {
 public:
  Autocast(Tape& tape, bool enabled, DType dtype = DType::bf16);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  Tape& tape_;
  bool enabled_;
  DType dtype_;
};

/// The argument as an operator in autocast's low-precision list sees it: cast, from the cache when it can be;
/// itself outside autocast, and for tensors that are not floating point.
Tensor autocast_cast(const Tensor& tensor, Tape& tape);
/// The argument as an operator in autocast's fp32 list sees it.
Tensor autocast_fp32(const Tensor& tensor, Tape& tape);

}  // namespace headroom::tape

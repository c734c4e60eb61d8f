#pragma once

#include <span>
#include <vector>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// `self.to(dtype)`: the tensor itself when nothing changes, else a copy that keeps a dense layout.
Tensor to(Arg self, DType dtype);
/// `self.contiguous()`: itself when row-major, else a copy.
Tensor contiguous(Arg self);
/// `self.clone()`: always a copy, in the layout that PyTorch preserves.
Tensor clone(Arg self);
/// A copy with a layout given (no autograd).
Tensor clone_as(Arg self, const Shape& shape);
/// torch.cat along a dimension, row-major. Tensors of rank 1 without elements are skipped. The caller's list
/// keeps its tensors.
Tensor cat(std::span<const Tensor> tensors, int dimension);
Tensor cat(Arg a, Arg b, int dimension);
/// So many rows of the first dimension, chosen out of `self`, joined in a copy; backward: `self`'s gradient.
Tensor take_rows(const Tensor& self, std::int64_t rows);
/// `self.copy_(other)`: nothing allocated.
void copy_in_place(const Tensor& self, const Tensor& other);
/// torch.zeros/ones/arange/full and the like.
Tensor fill(Tape& tape, const Shape& shape, DType dtype);

/// To the host (pinned or pageable) and back: a new storage there, row-major.
Tensor to_host(const Tensor& self, HostKind kind);
Tensor to_device(const Tensor& self);

}  // namespace headroom::tape

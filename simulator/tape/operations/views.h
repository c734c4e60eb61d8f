#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// Views: tensors on the same storage, differentiable. They allocate nothing forward; backward, a `view`
/// copies when the gradient's strides do not allow the old shape, and a slice makes zeros of its whole base.

Tensor view(Arg self, std::initializer_list<std::int64_t> sizes);  ///< one size may be -1
/// A view where strides allow it, else a row-major copy.
Tensor reshape(Arg self, std::initializer_list<std::int64_t> sizes);
Tensor reshape(Arg self, std::span<const std::int64_t> sizes);
Tensor transpose(Arg self, int a, int b);
Tensor t(Arg self);  ///< of a matrix
Tensor unsqueeze(Arg self, int dimension);
Tensor squeeze(Arg self, int dimension);
Tensor expand(Arg self, std::initializer_list<std::int64_t> sizes);
Tensor expand(Arg self, std::span<const std::int64_t> sizes);
/// self[..., start:start+length, ...]; the whole range makes a node too.
Tensor slice(Arg self, int dimension, std::int64_t start, std::int64_t length);
/// self[..., start::step, ...].
Tensor every(Arg self, int dimension, std::int64_t start, std::int64_t step);
/// self[..., index, ...] with the dimension gone.
Tensor select(Arg self, int dimension, std::int64_t index);
/// Equal parts (or parts of `length`, the last one shorter). One node: its backward joins them in one tensor.
std::vector<Tensor> split(Arg self, int dimension, std::int64_t length);
std::vector<Tensor> split(Arg self, int dimension, std::span<const std::int64_t> lengths);
/// self[...]: another view of all of it.
Tensor alias(Arg self);
Tensor detach(Arg self);
/// torch.Tensor._unsafe_view: like view, but its result does not count as one.
Tensor unsafe_view(Arg self, std::span<const std::int64_t> sizes);

}  // namespace headroom::tape

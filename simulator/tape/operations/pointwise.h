#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// Element-wise operators. Each allocates its result in the layout that TensorIterator chooses, and saves
/// what its gradient needs, only if that gradient is wanted.

/// The result of an element-wise kernel without autograd: the building block of all of these and of backward
/// formulas. Sizes are the operands' broadcast.
Tensor elementwise(std::uint16_t name, DType dtype, std::initializer_list<const Tensor*> operands);

/// PyTorch's type promotion of two tensors.
DType promote(const Tensor& a, const Tensor& b);
DType promote(DType a, DType b);  ///< of dtypes alone

Tensor mul(Arg self, Arg other);  ///< saves other, self; backward: gradient of other first
Tensor mul_scalar(Arg self);      ///< saves nothing
Tensor div(Arg self, Arg other);  ///< tensor by tensor
Tensor div_scalar(Arg self);      ///< as mul_scalar
Tensor add(Arg self, Arg other);  ///< backward passes the gradient on to both
Tensor add_scalar(Arg self);      ///< also minus a scalar, scalar plus
Tensor sub(Arg self, Arg other);  ///< backward: -g for other, first
Tensor neg(Arg self);
Tensor pow(Arg self);    ///< by a scalar exponent; saves self
Tensor rsqrt(Arg self);  ///< saves the result
Tensor exp(Arg self);
Tensor tanh(Arg self);
Tensor sigmoid(Arg self);
Tensor relu(Arg self);      ///< saves the result
Tensor silu(Arg self);      ///< saves self
Tensor softplus(Arg self);  ///< saves self
Tensor gelu(Arg self);      ///< saves self (erf and tanh kernels alike)
Tensor clamp(Arg self);     ///< both bounds scalars; saves self
Tensor clamp(Arg self, const Tensor& lower, const Tensor& upper);  ///< saves all three
Tensor maximum(Arg self, Arg other);
Tensor minimum(Arg self, Arg other);
Tensor masked_fill(Arg self, Arg mask);
Tensor where(Arg condition, Arg self, Arg other);

/// Formulas that the operators in place share (operations/in_place.h).
void add_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out);
void div_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out);
void masked_fill_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out);

/// `self += other` and the like: no allocation (beyond a broadcast one, which eager code does not make).
void add_in_place(const Tensor& self, const Tensor& other);
void mul_in_place(const Tensor& self);
/// `self.div_(scalar)` with autograd: no new tensor, but its gradient is one.
Tensor div_scalar_in_place(const Tensor& self);

/// Kernels without gradient: comparisons, cos, sin, bitwise and so on; `dtype` is the result's.
Tensor plain(std::uint16_t name, DType dtype, Arg self);
Tensor plain(std::uint16_t name, DType dtype, Arg self, Arg other);

}  // namespace headroom::tape

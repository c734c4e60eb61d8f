#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// Matrix products. A thread's first one leaves the cuBLAS workspace behind, right after its result; its
/// first product with bias the cublasLt workspace.

/// [M,K] x [K,N]. Backward: gradient of `b` first, then of `a`; each in its operand's memory order.
Tensor mm(Arg a, Arg b);
/// bias + a x b. Backward: gradient of a, of b, then the bias' (summed over rows by the engine).
Tensor addmm(Arg bias, Arg a, Arg b);
/// [B,M,K] x [B,K,N].
Tensor bmm(Arg a, Arg b);

/// torch.nn.functional.linear over the last dimension: input [.., in], weight [out, in], bias [out] or
/// undefined. Under autocast the arguments are cast from right to left.
Tensor linear(Arg input, const Tensor& weight, const Tensor& bias);
/// The same as DeepSpeed makes it of weights that are spread (runtime/zero/linear.py: LinearFunctionForZeroStage3):
/// input, weight and bias are kept as they are, so a weight's part is all that stays of it; the bias is added in
/// place. `linear` is this one while `Tape::zero3_linears`.
Tensor zero3_linear(Arg input, const Tensor& weight, const Tensor& bias);
/// input @ weight.T, then + bias: autocast casts the turned weight anew in every call.
Tensor linear_by_product(Arg input, const Tensor& weight, const Tensor& bias);

/// torch.matmul of rank 3 or more on both sides; batches of one are expanded.
Tensor matmul(Arg a, Arg b);

}  // namespace headroom::tape

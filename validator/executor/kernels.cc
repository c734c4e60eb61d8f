#include "validator/executor/kernels.h"

#include <algorithm>
#include <iterator>

#include "validator/kernels/transfer.h"

namespace headroom::gpu {
namespace {

// In the order of OperationKind; none: the touching kernel.
constexpr Kernels::Entry kEntries[] = {
    Kernels::matmul,
    Kernels::attention_forward,
    Kernels::attention_backward,
    Kernels::norm_forward,
    Kernels::norm_backward,
    Kernels::elementwise,
    Kernels::reduce,
    Kernels::softmax,
    Kernels::cross_entropy,
    Kernels::embedding,
    Kernels::embedding_backward,
    Kernels::gather,
    Kernels::copy,
    Kernels::dropout,
    nullptr,
    Kernels::sample,
    Kernels::optimizer,
    nullptr,
    nullptr,
    Kernels::all_gather,
    Kernels::reduce_scatter,
    Kernels::all_reduce,
    Kernels::all_to_all,
    Kernels::broadcast,
};
static_assert(std::size(kEntries) == static_cast<std::size_t>(OperationKind::broadcast) + 1);

}  // namespace

Kernels::Entry Kernels::of(OperationKind kind) {
  return kEntries[static_cast<std::size_t>(kind)];
}

// Cat and copies: the inputs one after the other, cast where the type changes.
Result<Covered> Kernels::copy(Worker&, const PlacedOperation& work, cudaStream_t stream) {
  if (work.outputs.empty() || !work.outputs[0].dense() || work.inputs.empty()) return Covered::no;
  const Placed& out = work.outputs[0];
  const bool one_type = std::all_of(work.inputs.begin(), work.inputs.end(),
                                    [&](const Placed& in) { return in.dtype == out.dtype; });
  const auto castable = [](DType t) { return t == DType::fp32 || t == DType::fp16 || t == DType::bf16; };
  if (!one_type && (!castable(out.dtype) || !castable(work.inputs[0].dtype))) return Covered::no;
  std::int64_t done = 0;
  for (const Placed& in : work.inputs) {
    const std::int64_t n = std::min(in.elements, out.elements - done);
    char* to = out.at + bytes_of(out.dtype, done);
    if (n > 0 && in.at != to) {
      if (in.dtype == out.dtype)
        HEADROOM_TRY(gpu::copy(in.at, to, bytes_of(out.dtype, n), stream));
      else
        HEADROOM_TRY(cast(in.at, in.dtype, to, out.dtype, n, stream));
    }
    done += n;
  }
  return Covered::yes;
}

}  // namespace headroom::gpu

#include "validator/executor/kernels.h"

#include <algorithm>
#include <array>

#include "validator/kernels/transfer.h"

namespace headroom::gpu {
namespace {

struct Row {
  const char* name;
  Kernels::Entry entry;  ///< none: the touching kernel
};

// In the order of OperationKind.
constexpr std::array kRows = {
    Row{"matmul", Kernels::matmul},
    Row{"attention_forward", Kernels::attention_forward},
    Row{"attention_backward", Kernels::attention_backward},
    Row{"norm_forward", Kernels::norm_forward},
    Row{"norm_backward", Kernels::norm_backward},
    Row{"elementwise", Kernels::elementwise},
    Row{"reduce", Kernels::reduce},
    Row{"softmax", Kernels::softmax},
    Row{"cross_entropy", Kernels::cross_entropy},
    Row{"embedding", Kernels::embedding},
    Row{"embedding_backward", Kernels::embedding_backward},
    Row{"gather", Kernels::gather},
    Row{"copy", Kernels::copy},
    Row{"dropout", Kernels::dropout},
    Row{"rotary", nullptr},
    Row{"sample", Kernels::sample},
    Row{"optimizer", Kernels::optimizer},
    Row{"host_to_device", nullptr},
    Row{"device_to_host", nullptr},
    Row{"all_gather", Kernels::all_gather},
    Row{"reduce_scatter", Kernels::reduce_scatter},
    Row{"all_reduce", Kernels::all_reduce},
    Row{"all_to_all", Kernels::all_to_all},
    Row{"broadcast", Kernels::broadcast},
};
static_assert(kRows.size() == static_cast<std::size_t>(OperationKind::broadcast) + 1);

}  // namespace

Kernels::Entry Kernels::of(OperationKind kind) {
  return kRows[static_cast<std::size_t>(kind)].entry;
}

const char* Kernels::name(OperationKind kind) {
  return kRows[static_cast<std::size_t>(kind)].name;
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

#include "validator/executor/host_work.h"

#include "validator/host/adamw.h"
#include "validator/host/numbers.h"
#include "validator/host/vector.h"

namespace headroom::gpu {
namespace {

bool usable(const Placed& placed, std::int64_t elements) {
  return placed.host && is_host_float(placed.dtype) && placed.elements >= elements;
}

bool optimizer(const PlacedOperation& work) {
  const std::optional<AdamW> step = adamw_of(work);
  if (!step) return false;
  for (std::size_t i = 0; i < 4; ++i)
    if (!usable(work.inputs[i], step->n)) return false;
  adamw_on_host(*step);
  return true;
}

bool norm(const PlacedOperation& work) {
  if (work.inputs.empty()) return false;
  const Placed& in = work.inputs[0];
  if (!usable(in, 1)) return false;
  volatile double kept =
      norm_on_host(in.at, in.dtype, in.elements);  // nobody reads it; it is taken all the same
  static_cast<void>(kept);
  return true;
}

// In place: scaled, or another tensor added.
bool in_place(const PlacedOperation& work) {
  if (work.inputs.empty() || work.outputs.size() != 1) return false;
  const Placed& out = work.outputs[0];
  if (!usable(out, 1) || work.inputs[0].at != out.at) return false;
  if (work.inputs.size() == 1) {
    scale_on_host(out.at, out.dtype, 0.5f, out.elements);
    return true;
  }
  const Placed& other = work.inputs[1];
  if (!usable(other, out.elements) || other.dtype != out.dtype) return false;
  add_on_host(out.at, other.at, out.dtype, out.elements);
  return true;
}

bool copy(const PlacedOperation& work) {
  if (work.inputs.size() != 1 || work.outputs.size() != 1) return false;
  const Placed &in = work.inputs[0], &out = work.outputs[0];
  const std::int64_t n = std::min(in.elements, out.elements);
  if (!usable(in, n) || !usable(out, n)) return false;
  cast_on_host(in.at, in.dtype, out.at, out.dtype, n);
  return true;
}

}  // namespace

bool work_on_host(const PlacedOperation& work) {
  switch (work.operation->kind) {
    case OperationKind::optimizer:
      return optimizer(work);
    case OperationKind::reduce:
      return norm(work);
    case OperationKind::elementwise:
      return in_place(work);
    case OperationKind::copy:
      return copy(work);
    default:
      return false;
  }
}

}  // namespace headroom::gpu

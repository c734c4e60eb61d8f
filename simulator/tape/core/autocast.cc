#include "simulator/tape/core/autocast.h"

#include "simulator/tape/operations/copy.h"

namespace headroom::tape {
namespace {

bool floating(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::fp16 || dtype == DType::bf16;
}

}  // namespace

Autocast::Autocast(Tape& tape, bool enabled, DType dtype)
    : tape_(tape), enabled_(tape.autocast().enabled), dtype_(tape.autocast().dtype) {
  tape.autocast().enabled = enabled;
  tape.autocast().dtype = dtype;
  ++tape.autocast().depth;
}

Autocast::~Autocast() {
  AutocastState& state = tape_.autocast();
  state.enabled = enabled_;
  state.dtype = dtype_;
  if (--state.depth == 0)
    for (auto& [source, cast] : state.cache) drop(source, cast);
  if (state.depth == 0) state.cache.clear();
}

Tensor autocast_cast(const Tensor& tensor, Tape& tape) {
  AutocastState& state = tape.autocast();
  if (!state.enabled || !floating(tensor.dtype()) || tensor.dtype() == state.dtype) return tensor;
  const bool cached =
      tensor.dtype() == DType::fp32 && tensor->requires_grad && tensor.is_leaf() && !tensor->view;
  if (!cached) return to(tensor, state.dtype);
  for (auto& [source, cast] : state.cache)
    if (source.record() == tensor.record()) return cast;
  Tensor cast = to(tensor, state.dtype);
  state.cache.emplace_back(tensor, cast);
  return cast;
}

Tensor autocast_fp32(const Tensor& tensor, Tape& tape) {
  if (!tape.autocast().enabled || !floating(tensor.dtype())) return tensor;
  return to(tensor, DType::fp32);
}

}  // namespace headroom::tape

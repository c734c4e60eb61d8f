#include <string_view>

#include "simulator/tape/core/names.h"
#include "validator/executor/kernels.h"
#include "validator/kernels/adamw.h"
#include "validator/kernels/elementwise.h"
#include "validator/kernels/finite.h"
#include "validator/kernels/transfer.h"

// Element by element.
namespace headroom::gpu {
namespace {

bool real(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::fp16 || dtype == DType::bf16;
}

struct OneInput {
  std::string_view operation;
  Unary kernel;
};
constexpr OneInput kOneInput[] = {
    {"aten::silu", Unary::silu},       {"aten::gelu", Unary::gelu},
    {"aten::relu", Unary::relu},       {"aten::tanh", Unary::hyperbolic_tangent},
    {"aten::exp", Unary::exponential}, {"aten::sigmoid", Unary::sigmoid},
    {"aten::neg", Unary::negate},      {"aten::rsqrt", Unary::reciprocal_root},
    {"NegBackward0", Unary::negate}};

struct TwoInputs {
  std::string_view operation;
  Binary kernel;
};
constexpr TwoInputs kTwoInputs[] = {{"aten::add", Binary::add},
                                    {"aten::sub", Binary::subtract},
                                    {"aten::mul", Binary::multiply},
                                    {"aten::div", Binary::divide},
                                    {"aten::maximum", Binary::maximum}};

struct Gradient {
  std::string_view operation;
  Activation kernel;
};
constexpr Gradient kGradients[] = {{"SiluBackward0", Activation::silu},
                                   {"GeluBackward0", Activation::gelu},
                                   {"ReluBackward0", Activation::relu}};

/// The input as it can be read for `out`: itself, or where it is smaller (broadcast) or of another type, the
/// output's own place, which moves the same bytes.
const char* readable(const Placed& in, const Placed& out) {
  return in.dtype == out.dtype && in.elements >= out.elements ? in.at : out.at;
}

Status one_input(std::string_view operation, const Placed& in, const Placed& out, cudaStream_t stream) {
  if (in.dtype != out.dtype && real(in.dtype) && in.elements >= out.elements)
    return cast(in.at, in.dtype, out.at, out.dtype, out.elements, stream);
  const char* from = readable(in, out);
  for (const OneInput& row : kOneInput)
    if (row.operation == operation) return unary(row.kernel, from, out.at, out.dtype, out.elements, stream);
  return scale_shift(from, 0.5f, 0.0f, out.at, out.dtype, out.elements, stream);
}

Status two_inputs(std::string_view operation, const Placed& a, const Placed& b, const Placed& out,
                  cudaStream_t stream) {
  const char *first = readable(a, out), *second = readable(b, out);
  for (const Gradient& row : kGradients)
    if (row.operation == operation)
      return activation_backward(row.kernel, second, first, out.at, out.dtype, out.elements, stream);
  Binary kernel = Binary::multiply;
  for (const TwoInputs& row : kTwoInputs)
    if (row.operation == operation) kernel = row.kernel;
  return binary(kernel, first, second, out.at, out.dtype, out.elements, stream);
}

std::uint8_t* flags(const Placed& placed) {
  return reinterpret_cast<std::uint8_t*>(placed.at);
}

/// Checks of gradients: outputs in double precision, and flags.
Result<Covered> gradient_check(std::string_view operation, const PlacedOperation& work, cudaStream_t stream) {
  const Placed &in = work.inputs[0], &out = work.outputs[0];
  const bool whole = in.elements >= out.elements;
  if (out.dtype == DType::fp64 && work.inputs.size() == 1 && real(in.dtype) && whole) {
    HEADROOM_TRY(widen(in.at, in.dtype, reinterpret_cast<double*>(out.at), out.elements, stream));
  } else if (operation == "aten::isnan" && out.dtype == DType::boolean && real(in.dtype) && whole) {
    HEADROOM_TRY(ask(Ask::is_nan, in.at, in.dtype, flags(out), out.elements, stream));
  } else if (operation == "aten::isinf" && out.dtype == DType::boolean && real(in.dtype) && whole) {
    HEADROOM_TRY(ask(Ask::is_infinite, in.at, in.dtype, flags(out), out.elements, stream));
  } else if (operation == "aten::logical_or" && out.dtype == DType::boolean && work.inputs.size() > 1 &&
             in.dtype == out.dtype && work.inputs[1].dtype == out.dtype && whole &&
             work.inputs[1].elements >= out.elements) {
    HEADROOM_TRY(either(flags(in), flags(work.inputs[1]), flags(out), out.elements, stream));
  } else {
    return Covered::no;
  }
  return Covered::yes;
}

}  // namespace

Result<Covered> Kernels::elementwise(Worker&, const PlacedOperation& work, cudaStream_t stream) {
  if (work.outputs.size() != 1) return Covered::no;
  const Placed& out = work.outputs[0];
  if (out.elements == 0) return Covered::yes;
  if (work.inputs.empty()) {
    HEADROOM_TRY(fill(out.at, 0.0f, out.dtype, out.elements, stream));
    return Covered::yes;
  }
  const std::string_view name = tape::operation_text(work.operation->label.operation);
  if (!real(out.dtype)) return gradient_check(name, work, stream);
  if (work.inputs.size() == 1)
    HEADROOM_TRY(one_input(name, work.inputs[0], out, stream));
  else
    HEADROOM_TRY(two_inputs(name, work.inputs[0], work.inputs[1], out, stream));
  return Covered::yes;
}

// Outputs: values, mask.
Result<Covered> Kernels::dropout(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.empty() || work.outputs.size() < 2) return Covered::no;
  const Placed &in = work.inputs[0], &out = work.outputs[0], &mask = work.outputs[1];
  if (!real(out.dtype) || in.dtype != out.dtype || in.elements < out.elements || mask.bytes() < out.elements)
    return Covered::no;
  HEADROOM_TRY(gpu::dropout(in.at, out.at, mask.at, 0.1f, worker.seed_++, out.dtype, out.elements, stream));
  return Covered::yes;
}

Result<Covered> Kernels::optimizer(Worker&, const PlacedOperation& work, cudaStream_t stream) {
  const std::optional<AdamW> step = adamw_of(work);
  if (!step) return Covered::no;
  for (std::size_t i = 0; i < 4; ++i)
    if (!real(work.inputs[i].dtype)) return Covered::no;
  HEADROOM_TRY(adamw(*step, stream));
  return Covered::yes;
}

}  // namespace headroom::gpu

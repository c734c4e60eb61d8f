#include "validator/executor/kernels.h"
#include "validator/kernels/finite.h"
#include "validator/kernels/norm.h"
#include "validator/kernels/reduce.h"
#include "validator/kernels/softmax.h"
#include "validator/kernels/transfer.h"

// Work along rows: norms, softmax, reductions, losses.
namespace headroom::gpu {
namespace {

bool real(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::fp16 || dtype == DType::bf16;
}

float* fp32(const Placed& placed) {
  return reinterpret_cast<float*>(placed.at);
}

}  // namespace

// Inputs: x, weight, bias. Outputs: y, mean, reciprocal deviation.
Result<Covered> Kernels::norm_forward(Worker&, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.size() < 2 || work.outputs.empty()) return Covered::no;
  const auto& s = work.operation->sizes;
  const Placed &x = work.inputs[0], &weight = work.inputs[1], &y = work.outputs[0];
  NormForward n{.kind = work.outputs.size() > 2 ? NormKind::layer : NormKind::rms,
                .dtype = y.dtype,
                .rows = s[0],
                .columns = s[1],
                .x = x.at,
                .weight = weight.at,
                .y = y.at};
  const std::int64_t elements = n.rows * n.columns;
  if (!real(n.dtype) || x.dtype != n.dtype || weight.dtype != n.dtype || x.elements < elements ||
      y.elements < elements || weight.elements < n.columns)
    return Covered::no;
  if (work.inputs.size() > 2 && work.inputs[2].elements >= n.columns) n.bias = work.inputs[2].at;
  if (n.kind == NormKind::layer) {
    if (work.outputs[1].elements < n.rows || work.outputs[2].elements < n.rows) return Covered::no;
    n.mean = fp32(work.outputs[1]);
    n.rstd = fp32(work.outputs[2]);
  } else if (work.outputs.size() > 1 && work.outputs[1].elements >= n.rows) {
    n.rstd = fp32(work.outputs[1]);
  }
  HEADROOM_TRY(gpu::norm_forward(n, stream));
  return Covered::yes;
}

// Inputs: gradient, x, mean (of layer norms), reciprocal deviation, weight. Outputs: those of x, weight, bias
// that are wanted.
Result<Covered> Kernels::norm_backward(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.size() < 4 || work.outputs.empty()) return Covered::no;
  const auto& s = work.operation->sizes;
  const auto& in = work.inputs;
  const bool layer = in.size() > 4;
  const Placed &deviation = in[layer ? 3 : 2], &weight = in[layer ? 4 : 3];
  NormBackward n{.kind = layer ? NormKind::layer : NormKind::rms,
                 .dtype = in[1].dtype,
                 .rows = s[0],
                 .columns = s[1],
                 .x = in[1].at,
                 .weight = weight.at,
                 .d_y = in[0].at,
                 .mean = layer ? fp32(in[2]) : nullptr,
                 .rstd = fp32(deviation),
                 .workspace = worker.scratch_.get()};
  const std::int64_t elements = n.rows * n.columns;
  const bool fits = in[0].elements >= elements && in[1].elements >= elements && in[2].elements >= n.rows &&
                    deviation.elements >= n.rows && weight.elements >= n.columns;
  if (!real(n.dtype) || in[0].dtype != n.dtype || weight.dtype != n.dtype || !fits ||
      norm_backward_workspace(n.kind, n.columns) > Worker::kScratchBytes)
    return Covered::no;
  std::vector<Placed> vectors;
  for (const Placed& out : work.outputs) {
    if (out.elements >= elements && n.d_x == nullptr)
      n.d_x = out.at;
    else
      vectors.push_back(out);
  }
  if (n.d_x == nullptr) return Covered::no;
  if (!vectors.empty()) n.d_weight = vectors[0].at;
  if (vectors.size() > 1) n.d_bias = vectors[1].at;
  HEADROOM_TRY(gpu::norm_backward(n, stream));
  return Covered::yes;
}

// A forward states rows and columns; a backward (gradient, result) has the rows of its forward. One number a
// row is the entropy.
Result<Covered> Kernels::softmax(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.empty() || work.outputs.empty()) return Covered::no;
  const Placed& out = work.outputs[0];
  if (!real(out.dtype) || !out.dense()) return Covered::no;
  const bool backward = work.inputs.size() > 1;
  Rows rows{.dtype = out.dtype};
  if (backward) {
    const auto known = worker.row_lengths_.find(out.elements);
    if (known == worker.row_lengths_.end()) return Covered::no;
    rows.columns = known->second;
  } else {
    rows.columns = work.operation->sizes[1];
    worker.row_lengths_[out.elements] = rows.columns;
  }
  if (rows.columns <= 0) return Covered::no;
  if (!backward && out.elements == work.operation->sizes[0] && out.dtype == DType::fp32 && rows.columns > 1) {
    const Placed& in = work.inputs[0];
    rows = {.dtype = in.dtype, .rows = out.elements, .columns = rows.columns};
    if (!real(in.dtype) || in.elements < rows.rows * rows.columns) return Covered::no;
    HEADROOM_TRY(entropy(rows, in.at, fp32(out), stream));
    return Covered::yes;
  }
  rows.rows = out.elements / rows.columns;
  if (!backward) {
    const Placed& in = work.inputs[0];
    const void* from = out.at;
    if (in.dtype == out.dtype && in.elements >= out.elements)
      from = in.at;
    else if (real(in.dtype) && in.elements >= out.elements)
      HEADROOM_TRY(cast(in.at, in.dtype, out.at, out.dtype, out.elements, stream));
    HEADROOM_TRY(gpu::softmax(rows, true, from, out.at, stream));
    return Covered::yes;
  }
  const auto usable = [&](const Placed& in) {
    return in.dtype == out.dtype && in.elements >= out.elements ? in.at : out.at;
  };
  HEADROOM_TRY(softmax_backward(rows, true, usable(work.inputs[1]), usable(work.inputs[0]), out.at, stream));
  return Covered::yes;
}

Result<Covered> Kernels::reduce(Worker&, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.empty() || work.outputs.empty()) return Covered::no;
  const Placed &in = work.inputs[0], &out = work.outputs[0];
  if (in.dtype == DType::fp64 && out.dtype == DType::fp64 && in.dense() && out.elements == 1) {
    HEADROOM_TRY(
        norm(reinterpret_cast<const double*>(in.at), in.elements, reinterpret_cast<double*>(out.at), stream));
    return Covered::yes;
  }
  if (!real(in.dtype) || !in.dense() || out.elements == 0 || in.elements % out.elements != 0)
    return Covered::no;
  const std::int64_t length = in.elements / out.elements;
  if (out.dtype == DType::fp32)
    HEADROOM_TRY(out.elements == 1
                     ? reduce_all(Reduce::sum, in.at, in.dtype, in.elements, fp32(out), false, stream)
                     : reduce_rows(Reduce::sum, in.at, in.dtype, out.elements, length, fp32(out), stream));
  else if (out.dtype == in.dtype && out.elements > 1)
    HEADROOM_TRY(sum_columns(in.at, in.dtype, length, out.elements, out.at, stream));
  else if (out.elements == 1 && real(out.dtype))
    // Blocks are whole multiples of 512 bytes: an fp32 fits where a half is asked for.
    HEADROOM_TRY(reduce_all(Reduce::sum, in.at, in.dtype, in.elements, fp32(out), false, stream));
  else
    return Covered::no;
  return Covered::yes;
}

Result<Covered> Kernels::sample(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.empty() || work.outputs.empty()) return Covered::no;
  const Placed &in = work.inputs[0], &out = work.outputs[0];
  if (!real(in.dtype) || out.dtype != DType::int64 || out.elements == 0 || !in.dense() ||
      in.elements % out.elements != 0)
    return Covered::no;
  const Rows rows{.dtype = in.dtype, .rows = out.elements, .columns = in.elements / out.elements};
  HEADROOM_TRY(
      gpu::sample(rows, in.at, 1.0f, worker.seed_++, reinterpret_cast<std::int64_t*>(out.at), stream));
  return Covered::yes;
}

}  // namespace headroom::gpu

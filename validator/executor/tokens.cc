#include "validator/executor/kernels.h"
#include "validator/kernels/sequence.h"
#include "validator/kernels/transfer.h"

// Work addressed by tokens. Index tensors come from outside the program or from work on numbers that carry no
// meaning here, so they are drawn at random within bounds before they are used.
namespace headroom::gpu {
namespace {

bool real(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::fp16 || dtype == DType::bf16;
}

Result<const std::int64_t*> indices(const Placed& index, std::int64_t bound, std::uint64_t seed,
                                    cudaStream_t stream) {
  HEADROOM_TRY(
      fill_random(index.at, 0.0f, static_cast<float>(bound), seed, DType::int64, index.elements, stream));
  return reinterpret_cast<const std::int64_t*>(index.at);
}

}  // namespace

// Inputs: table, indices.
Result<Covered> Kernels::embedding(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.size() < 2 || work.outputs.empty()) return Covered::no;
  const Placed &table = work.inputs[0], &index = work.inputs[1], &out = work.outputs[0];
  if (!real(table.dtype) || out.dtype != table.dtype || index.dtype != DType::int64 || !index.dense() ||
      index.elements == 0 || !out.dense() || out.elements % index.elements != 0)
    return Covered::no;
  const std::int64_t columns = out.elements / index.elements, rows = table.elements / columns;
  HEADROOM_ASSIGN(const std::int64_t* at, indices(index, rows, worker.seed_++, stream));
  HEADROOM_TRY(gather_rows(table.at, rows, at, index.elements, columns, table.dtype, out.at, stream));
  return Covered::yes;
}

// Inputs: gradient, indices.
Result<Covered> Kernels::embedding_backward(Worker& worker, const PlacedOperation& work,
                                            cudaStream_t stream) {
  if (work.inputs.size() < 2 || work.outputs.empty()) return Covered::no;
  const Placed &gradient = work.inputs[0], &index = work.inputs[1], &table = work.outputs[0];
  if (!real(table.dtype) || gradient.dtype != table.dtype || index.dtype != DType::int64 || !index.dense() ||
      index.elements == 0 || !gradient.dense() || gradient.elements % index.elements != 0)
    return Covered::no;
  const std::int64_t columns = gradient.elements / index.elements, rows = table.elements / columns;
  HEADROOM_ASSIGN(const std::int64_t* at, indices(index, rows, worker.seed_++, stream));
  HEADROOM_TRY(fill(table.at, 0.0f, table.dtype, table.elements, stream));
  HEADROOM_TRY(
      scatter_add_rows(gradient.at, at, index.elements, columns, gradient.dtype, table.at, rows, stream));
  return Covered::yes;
}

// Forward (values, indices): one element a row. Backward, whose output is larger than its gradient: zeros.
Result<Covered> Kernels::gather(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.size() < 2 || work.outputs.empty()) return Covered::no;
  const Placed &in = work.inputs[0], &index = work.inputs[1], &out = work.outputs[0];
  if (!real(out.dtype) || out.elements == 0) return Covered::no;
  if (out.elements > in.elements) {
    HEADROOM_TRY(fill(out.at, 0.0f, out.dtype, out.elements, stream));
    return Covered::yes;
  }
  // A mean of the picked elements has one output: the rows are then those of the indices.
  if (in.dtype != out.dtype || index.dtype != DType::int64 || !index.dense() || index.elements == 0 ||
      out.elements < index.elements || in.elements < index.elements)
    return Covered::no;
  const std::int64_t columns = in.elements / index.elements;
  HEADROOM_ASSIGN(const std::int64_t* at, indices(index, columns, worker.seed_++, stream));
  HEADROOM_TRY(gather_elements(in.at, at, index.elements, columns, in.dtype, out.at, stream));
  return Covered::yes;
}

}  // namespace headroom::gpu

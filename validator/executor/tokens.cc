#include "validator/executor/kernels.h"
#include "validator/kernels/sequence.h"
#include "validator/kernels/softmax.h"
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

// Over logits: forward (logits, targets) -> losses and log-sum-exps, backward (gradient, logits,
// log-sum-exps, targets). Over log-probabilities: forward (log-probabilities, targets) -> what the targets
// pick, backward zeros where nothing was picked.
Result<Covered> Kernels::cross_entropy(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  const auto &in = work.inputs, &out = work.outputs;
  const bool backward = in.size() == 4 && out.size() == 1;
  if (!backward && (in.size() != 2 || out.size() != 2)) return gather(worker, work, stream);
  const Placed &logits = in[backward ? 1 : 0], &targets = in[backward ? 3 : 1];
  const Placed &losses = backward ? in[0] : out[0], &logsumexp = backward ? in[2] : out[1];
  const Rows rows{
      .dtype = logits.dtype, .rows = work.operation->sizes[0], .columns = work.operation->sizes[1]};
  const auto a_number_a_row = [&](const Placed& placed) {
    return placed.dtype == DType::fp32 && placed.elements >= rows.rows;
  };
  if (!real(logits.dtype) || logits.elements < rows.rows * rows.columns || rows.columns <= 0 ||
      targets.dtype != DType::int64 || targets.elements < rows.rows || !a_number_a_row(losses) ||
      !a_number_a_row(logsumexp))
    return Covered::no;
  HEADROOM_ASSIGN(const std::int64_t* at, indices(targets, rows.columns, worker.seed_++, stream));
  auto* sums = reinterpret_cast<float*>(logsumexp.at);
  auto* loss = reinterpret_cast<float*>(losses.at);
  if (!backward) {
    HEADROOM_TRY(gpu::cross_entropy(rows, logits.at, at, loss, sums, stream));
    return Covered::yes;
  }
  if (out[0].dtype != logits.dtype || out[0].elements < rows.rows * rows.columns) return Covered::no;
  HEADROOM_TRY(cross_entropy_backward(rows, logits.at, at, sums, loss, out[0].at, stream));
  return Covered::yes;
}

}  // namespace headroom::gpu

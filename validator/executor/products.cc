#include "validator/executor/kernels.h"
#include "validator/kernels/attention.h"

// Matrix products and attention.
namespace headroom::gpu {
namespace {

bool real(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::fp16 || dtype == DType::bf16;
}

/// Sizes are {batch, query length, key length, heads, key heads, head dimension}; the causal mask is aligned
/// to the end, which for one query is no mask.
Attention attention_of(const Operation& operation, const Placed& q, const Placed& k, const Placed& v) {
  const auto& s = operation.sizes;
  return {.dtype = q.dtype,
          .batch = s[0],
          .query_length = s[1],
          .key_length = s[2],
          .heads = s[3],
          .key_heads = s[4],
          .head_dim = s[5],
          .q = q.at,
          .k = k.at,
          .v = v.at};
}

bool supported(const Attention& a) {
  return real(a.dtype) && a.head_dim % 8 == 0 && a.head_dim <= 256 && a.key_heads > 0 &&
         a.heads % a.key_heads == 0;
}

}  // namespace

Result<Covered> Kernels::matmul(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.size() < 2 || work.outputs.empty()) return Covered::no;
  const Placed &a = work.inputs[0], &b = work.inputs[1], &d = work.outputs[0];
  const auto& s = work.operation->sizes;
  const Gemm gemm{.a = a.at,
                  .b = b.at,
                  .d = d.at,
                  .dtype = d.dtype,
                  .m = s[0],
                  .n = s[1],
                  .k = s[2],
                  .batch = std::max<std::int64_t>(s[3], 1),
                  .transpose_b = true};
  const bool fits = a.elements >= gemm.m * gemm.k * gemm.batch &&
                    b.elements >= gemm.k * gemm.n * gemm.batch && d.elements >= gemm.m * gemm.n * gemm.batch;
  if (!real(d.dtype) || a.dtype != d.dtype || b.dtype != d.dtype || !fits) return Covered::no;
  HEADROOM_TRY(worker.cublas_.bind(stream, worker.workspace_, worker.workspace_bytes_));
  HEADROOM_TRY(worker.cublas_.multiply(gemm));
  return Covered::yes;
}

Result<Covered> Kernels::attention_forward(Worker&, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.size() < 3 || work.outputs.empty()) return Covered::no;
  const Placed &q = work.inputs[0], &k = work.inputs[1], &v = work.inputs[2], &o = work.outputs[0];
  Attention a = attention_of(*work.operation, q, k, v);
  a.o = o.at;
  const std::int64_t keys = a.batch * a.key_length * a.key_heads * a.head_dim;
  const std::int64_t queries = a.batch * a.query_length * a.heads * a.head_dim;
  if (!supported(a) || q.elements < queries || k.elements < keys || v.elements < keys || o.elements < queries)
    return Covered::no;
  if (work.outputs.size() > 1 && work.outputs[1].elements >= a.batch * a.query_length * a.heads)
    a.logsumexp = reinterpret_cast<float*>(work.outputs[1].at);
  HEADROOM_TRY(gpu::attention_forward(a, stream));
  return Covered::yes;
}

// Inputs: gradient, query, key, value, result, log-sum-exp, workspace.
Result<Covered> Kernels::attention_backward(Worker&, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.size() < 7 || work.outputs.size() < 3) return Covered::no;
  const auto& in = work.inputs;
  Attention a = attention_of(*work.operation, in[1], in[2], in[3]);
  const std::int64_t rows = a.batch * a.query_length * a.heads;
  const std::int64_t keys = a.batch * a.key_length * a.key_heads * a.head_dim;
  const std::int64_t queries = rows * a.head_dim;
  const bool fits = in[0].elements >= queries && in[1].elements >= queries && in[2].elements >= keys &&
                    in[3].elements >= keys && in[4].elements >= queries && in[5].bytes() >= rows * 4 &&
                    in[6].bytes() >= rows * 4 && work.outputs[0].elements >= queries &&
                    work.outputs[1].elements >= keys && work.outputs[2].elements >= keys;
  if (!supported(a) || !fits) return Covered::no;
  a.o = in[4].at;
  a.logsumexp = reinterpret_cast<float*>(in[5].at);
  const AttentionGradient gradient{.d_o = in[0].at,
                                   .d_q = work.outputs[0].at,
                                   .d_k = work.outputs[1].at,
                                   .d_v = work.outputs[2].at,
                                   .delta = reinterpret_cast<float*>(in[6].at)};
  HEADROOM_TRY(gpu::attention_backward(a, gradient, stream));
  return Covered::yes;
}

}  // namespace headroom::gpu

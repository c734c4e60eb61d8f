#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "models/base/bytes.h"
#include "models/base/dtype.h"
#include "models/base/result.h"

namespace headroom::gpu {

enum class NormKind { rms, layer };

/// y = (x - mean) * rstd * weight + bias over each row; RMS norm has no mean and no bias. Rows are dense.
/// `mean` and `rstd` (fp32, one a row) are kept for the backward; `mean` may be null for rms, `bias` for
/// both.
struct NormForward {
  NormKind kind = NormKind::rms;
  DType dtype = DType::bf16;
  std::int64_t rows = 0, columns = 0;
  float epsilon = 1e-5f;
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
};
Status norm_forward(const NormForward&, cudaStream_t stream);

/// Gradients of a norm. `d_weight` and `d_bias` (dtype of x) may be null. `workspace` holds
/// norm_backward_workspace(kind, columns) bytes for sums over rows.
struct NormBackward {
  NormKind kind = NormKind::rms;
  DType dtype = DType::bf16;
  std::int64_t rows = 0, columns = 0;
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* d_y = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  void* d_x = nullptr;
  void* d_weight = nullptr;
  void* d_bias = nullptr;
  void* workspace = nullptr;
};
Status norm_backward(const NormBackward&, cudaStream_t stream);
Bytes norm_backward_workspace(NormKind kind, std::int64_t columns);

}  // namespace headroom::gpu

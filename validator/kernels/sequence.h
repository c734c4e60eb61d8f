#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "models/base/dtype.h"
#include "models/base/result.h"

/// Kernels that address tokens: embeddings, gathers and rotary positions.
namespace headroom::gpu {

/// out[i, :] = table[index[i], :]; indices out of [0, table_rows) give zeros.
Status gather_rows(const void* table, std::int64_t table_rows, const std::int64_t* index, std::int64_t count,
                   std::int64_t columns, DType, void* out, cudaStream_t stream);
/// d_table[index[i], :] += d_out[i, :]; d_table is zeroed by the caller or holds an earlier gradient.
Status scatter_add_rows(const void* d_out, const std::int64_t* index, std::int64_t count,
                        std::int64_t columns, DType, void* d_table, std::int64_t table_rows,
                        cudaStream_t stream);
/// out[r] = x[r, index[r]]; an index out of the row gives 0.
Status gather_elements(const void* x, const std::int64_t* index, std::int64_t rows, std::int64_t columns,
                       DType, void* out, cudaStream_t stream);

/// Rotary embedding over [tokens, heads, head_dim], pairs (i, i + head_dim / 2) as Llama has them, angle
/// position * base^(-2 i / head_dim). `position` may be null: token index modulo `length`. `inverse` rotates
/// back, which is the backward.
struct Rotary {
  DType dtype = DType::bf16;
  std::int64_t tokens = 0, heads = 0, head_dim = 0, length = 0;
  const std::int64_t* position = nullptr;
  float base = 10000.0f;
  bool inverse = false;
  const void* x = nullptr;
  void* y = nullptr;
};
Status rotary(const Rotary&, cudaStream_t stream);

}  // namespace headroom::gpu

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "models/base/dtype.h"
#include "models/base/result.h"

/// Over rows as long as a vocabulary. Dense rows of one floating dtype; arithmetic in fp32.
namespace headroom::gpu {

struct Rows {
  DType dtype = DType::bf16;
  std::int64_t rows = 0, columns = 0;
};

/// y = softmax(x), or log softmax(x). x and y may be the same.
Status softmax(const Rows&, bool log, const void* x, void* y, cudaStream_t stream);
/// From the forward's y: d_x = y (d_y - sum(y d_y)), or for log: d_x = d_y - exp(y) sum(d_y).
Status softmax_backward(const Rows&, bool log, const void* y, const void* d_y, void* d_x,
                        cudaStream_t stream);

/// loss[r] = logsumexp(x[r]) - x[r, target[r]] (fp32), 0 where target[r] < 0. `logsumexp` (fp32, one a row)
/// is kept for the backward and may be null there only if no backward follows.
Status cross_entropy(const Rows&, const void* x, const std::int64_t* target, float* loss, float* logsumexp,
                     cudaStream_t stream);
/// d_x[r, c] = (exp(x[r, c] - logsumexp[r]) - [c == target[r]]) * d_loss[r]; d_x and x may be the same.
Status cross_entropy_backward(const Rows&, const void* x, const std::int64_t* target, const float* logsumexp,
                              const float* d_loss, void* d_x, cudaStream_t stream);
/// entropy[r] = logsumexp(x) - sum(softmax(x) x), fp32.
Status entropy(const Rows&, const void* x, float* entropy, cudaStream_t stream);
/// token[r] drawn from softmax(x[r] / temperature); temperature 0: the largest. The same seed draws the same.
Status sample(const Rows&, const void* x, float temperature, std::uint64_t seed, std::int64_t* token,
              cudaStream_t stream);

}  // namespace headroom::gpu

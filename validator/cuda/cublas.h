#pragma once

#include <cublas_v2.h>

#include <string>

#include "models/base/bytes.h"
#include "models/base/dtype.h"
#include "models/base/result.h"

namespace headroom::gpu {

/// D = op(A) op(B), row-major as PyTorch stores tensors. A is [m,k] (or [k,m] when transposed), B is [k,n]
/// (or [n,k]), D is [m,n]; all three dense and of `dtype` (fp32, fp16, bf16), accumulated in fp32. With
/// `batch` > 1 the matrices of each operand follow one another.
struct Gemm {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  DType dtype = DType::bf16;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;  ///< D += instead of D =
};

/// A cuBLAS handle bound to a stream and a caller's workspace, as PyTorch uses one. cuBLAS comes from the
/// machine (cuBLAS 13 or 12), loaded on first use.
class Cublas {
 public:
  /// Loads cuBLAS and creates a handle on the current device. `workspace` may be empty: cuBLAS then allocates
  /// its own outside every allocator.
  static Result<Cublas> create();

  Cublas(Cublas&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Cublas& operator=(Cublas&&) = delete;
  ~Cublas();

  /// Later products run on `stream` with `workspace`, which stays the caller's.
  Status bind(cudaStream_t stream, void* workspace, Bytes workspace_bytes);
  /// Enqueues one product. Sizes of zero do nothing.
  Status multiply(const Gemm& gemm);

  /// `13.0.2` style version of the loaded library.
  Result<std::string> version() const;

 private:
  explicit Cublas(cublasHandle_t handle) : handle_(handle) {}
  cublasHandle_t handle_;
};

/// The workspace PyTorch gives a cuBLAS handle on a device of this compute capability: 32 MiB from 9.0
/// on, 8.125 MiB before (PyTorch's getChosenWorkspaceSize; CUBLAS_WORKSPACE_CONFIG unset).
Bytes default_cublas_workspace(int compute_major);

}  // namespace headroom::gpu

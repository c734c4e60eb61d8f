#include "validator/cuda/cublas.h"

#include <fmt/format.h>

#include "validator/cuda/library.h"

namespace headroom::gpu {
namespace {

struct Api {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasGetVersion_v2) version = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
  decltype(&cublasGemmStridedBatchedEx_64) gemm = nullptr;
};

Result<Api> load() {
  // cuBLAS depends on cuBLASLt; loading that first lets both come from a folder the loader does not search.
  HEADROOM_TRY(Library::open("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}));
  HEADROOM_ASSIGN(Library library, Library::open("cuBLAS", {"libcublas.so.13", "libcublas.so.12"}));
  Api api;
  HEADROOM_TRY(library.find("cublasCreate_v2", api.create));
  HEADROOM_TRY(library.find("cublasDestroy_v2", api.destroy));
  HEADROOM_TRY(library.find("cublasGetVersion_v2", api.version));
  HEADROOM_TRY(library.find("cublasSetStream_v2", api.set_stream));
  HEADROOM_TRY(library.find("cublasSetWorkspace_v2", api.set_workspace));
  HEADROOM_TRY(library.find("cublasSetMathMode", api.set_math_mode));
  HEADROOM_TRY(library.find("cublasGetStatusString", api.status_string));
  HEADROOM_TRY(library.find("cublasGemmStridedBatchedEx_64", api.gemm));
  return api;
}

Result<const Api*> api() {
  static const Result<Api> loaded = load();
  if (!loaded) return fail(loaded.error());
  return &*loaded;
}

Status checked(const Api& api, cublasStatus_t code, const std::string& call) {
  if (code == CUBLAS_STATUS_SUCCESS) return {};
  return fail(Error{.message = fmt::format("{} gave {}", call, api.status_string(code)),
                    .file = {},
                    .key = {},
                    .kind = Error::Kind::incomplete});
}

Result<cudaDataType> data_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return CUDA_R_32F;
    case DType::fp16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return fail(fmt::format("matrix product: expected fp32, fp16 or bf16, found {}", name(dtype)));
  }
}

}  // namespace

Result<Cublas> Cublas::create() {
  HEADROOM_ASSIGN(const Api* calls, api());
  cublasHandle_t handle = nullptr;
  HEADROOM_TRY(checked(*calls, calls->create(&handle), "cublasCreate"));
  Cublas cublas(handle);
  HEADROOM_TRY(checked(*calls, calls->set_math_mode(handle, CUBLAS_DEFAULT_MATH), "cublasSetMathMode"));
  return cublas;
}

Cublas::~Cublas() {
  if (auto calls = api(); calls && handle_) (*calls)->destroy(handle_);
}

Status Cublas::bind(cudaStream_t stream, void* workspace, Bytes workspace_bytes) {
  HEADROOM_ASSIGN(const Api* calls, api());
  HEADROOM_TRY(checked(*calls, calls->set_stream(handle_, stream), "cublasSetStream"));
  if (workspace == nullptr) return {};
  return checked(*calls, calls->set_workspace(handle_, workspace, static_cast<std::size_t>(workspace_bytes)),
                 "cublasSetWorkspace");
}

Status Cublas::multiply(const Gemm& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  HEADROOM_ASSIGN(const Api* calls, api());
  HEADROOM_ASSIGN(const cudaDataType type, data_type(g.dtype));
  const float alpha = 1.0f, beta = g.accumulate ? 1.0f : 0.0f;
  // cuBLAS is column-major: D^T = op(B)^T op(A)^T, with each row-major matrix read as its transpose.
  const std::int64_t lda = g.transpose_a ? g.m : g.k, ldb = g.transpose_b ? g.k : g.n;
  return checked(
      *calls,
      calls->gemm(handle_, g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                  g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, g.n, g.m, g.k, &alpha, g.b, type, ldb, g.n * g.k,
                  g.a, type, lda, g.m * g.k, &beta, g.d, type, g.n, g.m * g.n, g.batch, CUBLAS_COMPUTE_32F,
                  CUBLAS_GEMM_DEFAULT_TENSOR_OP),
      fmt::format("cublasGemm of {} m={} n={} k={} batch={}", name(g.dtype), g.m, g.n, g.k, g.batch));
}

Result<std::string> Cublas::version() const {
  HEADROOM_ASSIGN(const Api* calls, api());
  int v = 0;
  HEADROOM_TRY(checked(*calls, calls->version(handle_, &v), "cublasGetVersion"));
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

Bytes default_cublas_workspace(int compute_major) {
  return compute_major >= 9 ? 32 * kMiB : 8320 * kKiB;
}

}  // namespace headroom::gpu

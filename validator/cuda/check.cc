#include "validator/cuda/check.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "validator/cuda/driver.h"

namespace headroom::gpu {
namespace {

tl::unexpected<Error> failed(std::string_view expression, std::string_view code, std::string_view text,
                             std::string_view file, int line) {
  if (auto at = file.rfind("validator/"); at != std::string_view::npos) file.remove_prefix(at);
  return fail(Error{.message = fmt::format("{} gave {} ({}) at {}:{}", expression, code, text, file, line),
                    .file = {},
                    .key = {},
                    .kind = Error::Kind::incomplete});
}

}  // namespace

Status checked(cudaError_t code, const char* expression, const char* file, int line) {
  if (code == cudaSuccess) return {};
  return failed(expression, cudaGetErrorName(code), cudaGetErrorString(code), file, line);
}

Status checked(CUresult code, const char* expression, const char* file, int line) {
  if (code == CUDA_SUCCESS) return {};
  const char* text = nullptr;
  if (auto driver = Driver::get()) (*driver)->error_string(code, &text);
  return failed(expression, fmt::format("CUresult {}", static_cast<int>(code)), text ? text : "unknown error",
                file, line);
}

}  // namespace headroom::gpu

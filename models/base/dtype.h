#pragma once

#include <optional>
#include <string_view>

namespace headroom {

/// Element types of tensors, weights and caches.
enum class DType { fp32, fp16, bf16, fp8, int8, uint8, int64, int32, boolean, nf4, fp64, fp4 };

/// Bytes of one element; nf4 and fp4 pack two elements a byte, so use `bytes_of` for them.
constexpr int element_size(DType dtype) {
  switch (dtype) {
    case DType::fp64:
    case DType::int64:
      return 8;
    case DType::fp32:
    case DType::int32:
      return 4;
    case DType::fp16:
    case DType::bf16:
      return 2;
    default:
      return 1;
  }
}

/// Bytes of `elements` elements.
constexpr long long bytes_of(DType dtype, long long elements) {
  return dtype == DType::nf4 || dtype == DType::fp4 ? (elements + 1) / 2 : elements * element_size(dtype);
}

/// `bf16`, `fp32`, …
std::string_view name(DType dtype);

/// Accepts the spellings in use: bf16, bfloat16, torch.bfloat16, fp16, half, float16, fp32, float, float32 …
std::optional<DType> parse_dtype(std::string_view text);

}  // namespace headroom

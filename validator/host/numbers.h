#pragma once

#include <bit>
#include <cstdint>

#include "models/base/dtype.h"

/// Numbers of tensors as they lie in host memory, for work that the host does itself.
namespace headroom::gpu {

/// The upper half of an fp32; rounds to nearest even, and keeps NaNs.
struct HostBf16 {
  std::uint16_t bits = 0;
  HostBf16() = default;
  explicit HostBf16(float x) {
    const auto wide = std::bit_cast<std::uint32_t>(x);
    const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? 0x7fc0u : (wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};
using HostFp16 = _Float16;

inline bool is_host_float(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::fp16 || dtype == DType::bf16;
}

/// Calls `use` with a value of the type behind `dtype` (fp32, fp16 or bf16; others count as fp32).
template <class Use>
auto with_host_type(DType dtype, Use use) {
  switch (dtype) {
    case DType::fp16:
      return use(HostFp16{});
    case DType::bf16:
      return use(HostBf16{});
    default:
      return use(0.0f);
  }
}

}  // namespace headroom::gpu

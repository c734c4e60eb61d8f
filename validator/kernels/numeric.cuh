#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "models/base/dtype.h"
#include "models/base/result.h"

/// What every kernel shares: conversions, 16-byte packs, reductions over a block, dispatch over dtypes.
namespace headroom::gpu {

using bf16 = __nv_bfloat16;
using fp16 = __half;

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(fp16 x) {
  return __half2float(x);
}
__device__ inline float to_float(bf16 x) {
  return __bfloat162float(x);
}
__device__ inline float to_float(std::int32_t x) {
  return static_cast<float>(x);
}
__device__ inline float to_float(std::int64_t x) {
  return static_cast<float>(x);
}
__device__ inline float to_float(std::uint8_t x) {
  return static_cast<float>(x);
}

template <class T>
__device__ T from_float(float x) {
  return static_cast<T>(x);
}
template <>
__device__ inline fp16 from_float<fp16>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline bf16 from_float<bf16>(float x) {
  return __float2bfloat16_rn(x);
}

/// `N` neighbours of a row, loaded and stored in one access.
template <class T, int N = 16 / sizeof(T)>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

template <class T, int N>
__device__ Pack<T, N> load_pack(const T* address) {
  return *reinterpret_cast<const Pack<T, N>*>(address);
}
template <class T, int N>
__device__ void store_pack(T* address, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(address) = pack;
}

/// True when every address allows accesses of 16 bytes.
template <class... Pointer>
bool aligned16(const Pointer*... address) {
  return ((reinterpret_cast<std::uintptr_t>(address) | ...) & 15) == 0;
}

struct Sum {
  static constexpr float kIdentity = 0.0f;
  __device__ static float join(float a, float b) { return a + b; }
};
struct Max {
  static constexpr float kIdentity = -INFINITY;
  __device__ static float join(float a, float b) { return fmaxf(a, b); }
};

template <class Operator>
__device__ float reduce_warp(float x) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    x = Operator::join(x, __shfl_xor_sync(0xffffffffu, x, distance));
  }
  return x;
}

/// The reduction of `x` over the block, in every thread. `scratch` holds 32 floats and may be reused after
/// the next barrier. blockDim.x is a multiple of 32.
template <class Operator>
__device__ float reduce_block(float x, float* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  x = reduce_warp<Operator>(x);
  __syncthreads();
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  x = lane < warps ? scratch[lane] : Operator::kIdentity;
  return reduce_warp<Operator>(x);
}

/// A counter-based random number in [0, 1): the same (seed, index) gives the same number on every launch. Two
/// rounds of the 64-bit finaliser of SplitMix64.
__device__ inline float uniform(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return static_cast<float>(z >> 40) * 0x1p-24f;
}

/// A cheaper generator for many draws a row: a key of the row, then a 32-bit mix of the key and the place.
__device__ inline std::uint32_t row_key(std::uint64_t seed, std::uint64_t row) {
  std::uint64_t z = seed + (row + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<std::uint32_t>((z ^ (z >> 27)) >> 16);
}
/// In (0, 1), neither end, from a key plus a place: two multiplies; the upper 23 bits become the fraction of
/// a float in [1, 2).
__device__ inline float uniform_inside(std::uint32_t z) {
  z = (z ^ (z >> 16)) * 0x21f0aaadu;
  z = (z ^ (z >> 15)) * 0xd35a2d97u;
  return __uint_as_float(0x3f800000u | z >> 9) - (1.0f - 0x1p-24f);
}

inline constexpr float kLog2e = 1.4426950408889634f;

/// 2^x by the special function unit; 0 for -infinity.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls `body(TypeTag<T>{})` with the C++ type of a floating dtype.
template <class Body>
Status with_float_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::fp32:
      return body(TypeTag<float>{});
    case DType::fp16:
      return body(TypeTag<fp16>{});
    case DType::bf16:
      return body(TypeTag<bf16>{});
    default:
      return fail("kernel: expected fp32, fp16 or bf16, found " + std::string(name(dtype)));
  }
}

}  // namespace headroom::gpu

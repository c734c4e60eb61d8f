#pragma once

#include <algorithm>

#include "validator/cuda/check.h"
#include "validator/kernels/launch.h"
#include "validator/kernels/numeric.cuh"

namespace headroom::gpu {

inline constexpr int kMapThreads = 256;
/// Packs a thread loads before it uses the first one: independent loads in flight hide the memory's latency.
inline constexpr int kMapUnroll = 4;

/// out[i] = f(in[i]…): one element a call, `Width` elements an access where `packed`.
template <int Width, class F, class Out, class... In>
__global__ void __launch_bounds__(kMapThreads)
    map_kernel(F f, std::int64_t n, bool packed, Out* out, const In*... in) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kMapThreads + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kMapThreads;
  const std::int64_t packs = packed ? n / Width : 0;
  auto apply = [&](std::int64_t p, const Pack<In, Width>&... loaded) {
    Pack<Out, Width> result;
#pragma unroll
    for (int j = 0; j < Width; ++j) result.v[j] = from_float<Out>(f(to_float(loaded.v[j])...));
    store_pack<Out, Width>(out + p * Width, result);
  };
  std::int64_t p = thread;
  for (; p + (kMapUnroll - 1) * threads < packs; p += kMapUnroll * threads) {
    // One array of packs an input, all filled before the first is used.
    auto all = [&](const auto&... batch) {
#pragma unroll
      for (int u = 0; u < kMapUnroll; ++u) apply(p + u * threads, batch.v[u]...);
    };
    auto fetch = [&](auto* source) {
      using T = std::remove_cv_t<std::remove_pointer_t<decltype(source)>>;
      struct {
        Pack<T, Width> v[kMapUnroll];
      } batch;
#pragma unroll
      for (int u = 0; u < kMapUnroll; ++u)
        batch.v[u] = load_pack<T, Width>(source + (p + u * threads) * Width);
      return batch;
    };
    all(fetch(in)...);
  }
  for (; p < packs; p += threads) apply(p, load_pack<In, Width>(in + p * Width)...);
  for (std::int64_t i = packs * Width + thread; i < n; i += threads) {
    out[i] = from_float<Out>(f(to_float(in[i])...));
  }
}

/// Enqueues out[i] = f(in[i]…) for i < n.
template <class F, class Out, class... In>
Status map(F f, std::int64_t n, cudaStream_t stream, Out* out, const In*... in) {
  constexpr int kWidth = 16 / static_cast<int>(std::max({sizeof(Out), sizeof(In)...}));
  if (n <= 0) return {};
  const unsigned grid = grid_for(n, static_cast<std::int64_t>(kMapThreads) * kWidth * kMapUnroll, 16);
  map_kernel<kWidth><<<grid, kMapThreads, 0, stream>>>(f, n, aligned16(out, in...), out, in...);
  return HEADROOM_LAUNCHED();
}

}  // namespace headroom::gpu

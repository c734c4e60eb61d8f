#include "validator/cuda/check.h"
#include "validator/kernels/adamw.h"
#include "validator/kernels/launch.h"
#include "validator/kernels/numeric.cuh"

namespace headroom::gpu {
namespace {

constexpr int kThreads = 256;

template <class W, class G, class S, int Width>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(AdamWFactors f, std::int64_t n, W* parameter, float* master, const G* gradient, S* first,
                 S* second) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n / Width;
       i += stride) {
    const std::int64_t at = i * Width;
    const auto g = load_pack<G, Width>(gradient + at);
    auto m = load_pack<S, Width>(first + at);
    auto v = load_pack<S, Width>(second + at);
    Pack<W, Width> w;
    Pack<float, Width> exact;
    if (master != nullptr) {
      exact = load_pack<float, Width>(master + at);
    } else {
      w = load_pack<W, Width>(parameter + at);
#pragma unroll
      for (int j = 0; j < Width; ++j) exact.v[j] = to_float(w.v[j]);
    }
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      const float slope = to_float(g.v[j]) * f.gradient_scale;
      const float mean = f.beta1 * to_float(m.v[j]) + (1.0f - f.beta1) * slope;
      const float square = f.beta2 * to_float(v.v[j]) + (1.0f - f.beta2) * slope * slope;
      exact.v[j] = exact.v[j] * f.decay - f.step * mean / (sqrtf(square) * f.root_correction + f.epsilon);
      m.v[j] = from_float<S>(mean);
      v.v[j] = from_float<S>(square);
      w.v[j] = from_float<W>(exact.v[j]);
    }
    store_pack<S, Width>(first + at, m);
    store_pack<S, Width>(second + at, v);
    if (master != nullptr) store_pack<float, Width>(master + at, exact);
    store_pack<W, Width>(parameter + at, w);
  }
}

}  // namespace

Status adamw(const AdamW& a, cudaStream_t stream) {
  if (a.n <= 0) return {};
  const AdamWFactors factors(a);
  return with_float_type(a.weight_dtype, [&]<class W>(TypeTag<W>) {
    return with_float_type(a.gradient_dtype, [&]<class G>(TypeTag<G>) {
      return with_float_type(a.state_dtype, [&]<class S>(TypeTag<S>) {
        const auto launch = [&]<int Width>(std::integral_constant<int, Width>) {
          adamw_kernel<W, G, S, Width><<<grid_for(a.n, kThreads * Width, 16), kThreads, 0, stream>>>(
              factors, a.n, static_cast<W*>(a.parameter), a.master, static_cast<const G*>(a.gradient),
              static_cast<S*>(a.first), static_cast<S*>(a.second));
          return HEADROOM_LAUNCHED();
        };
        const bool packed = a.n % 4 == 0 && aligned16(a.parameter, a.master, a.gradient, a.first, a.second);
        return packed ? launch(std::integral_constant<int, 4>{}) : launch(std::integral_constant<int, 1>{});
      });
    });
  });
}

}  // namespace headroom::gpu

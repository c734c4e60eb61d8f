#include "validator/kernels/elementwise.h"
#include "validator/kernels/map.cuh"

namespace headroom::gpu {
namespace {

constexpr float kRootHalf = 0.70710678118654752f;       // 1 / sqrt 2
constexpr float kRootTwoOverPi = 0.79788456080286536f;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;

__device__ float logistic(float x) {
  return 1.0f / (1.0f + __expf(-x));
}
__device__ float normal_density(float x) {
  return 0.3989422804014327f * __expf(-0.5f * x * x);
}

template <Unary kind>
struct UnaryFunction {
  __device__ float operator()(float x) const {
    if constexpr (kind == Unary::negate) return -x;
    if constexpr (kind == Unary::exponential) return __expf(x);
    if constexpr (kind == Unary::sigmoid) return logistic(x);
    if constexpr (kind == Unary::silu) return x * logistic(x);
    if constexpr (kind == Unary::gelu) return 0.5f * x * (1.0f + erff(x * kRootHalf));
    if constexpr (kind == Unary::gelu_tanh) {
      return 0.5f * x * (1.0f + tanhf(kRootTwoOverPi * (x + kGeluCubic * x * x * x)));
    }
    if constexpr (kind == Unary::relu) return fmaxf(x, 0.0f);
    if constexpr (kind == Unary::hyperbolic_tangent) return tanhf(x);
    if constexpr (kind == Unary::reciprocal_root) return rsqrtf(x);
    return x;
  }
};

template <Binary kind>
struct BinaryFunction {
  __device__ float operator()(float a, float b) const {
    if constexpr (kind == Binary::add) return a + b;
    if constexpr (kind == Binary::subtract) return a - b;
    if constexpr (kind == Binary::multiply) return a * b;
    if constexpr (kind == Binary::divide) return a / b;
    return fmaxf(a, b);
  }
};

template <Activation kind>
struct ActivationGradient {
  __device__ float operator()(float x, float d) const {
    if constexpr (kind == Activation::relu) return x > 0.0f ? d : 0.0f;
    if constexpr (kind == Activation::silu) {
      const float s = logistic(x);
      return d * s * (1.0f + x * (1.0f - s));
    }
    if constexpr (kind == Activation::gelu) {
      return d * (0.5f * (1.0f + erff(x * kRootHalf)) + x * normal_density(x));
    }
    const float t = tanhf(kRootTwoOverPi * (x + kGeluCubic * x * x * x));
    const float inner = kRootTwoOverPi * (1.0f + 3.0f * kGeluCubic * x * x);
    return d * 0.5f * (1.0f + t + x * (1.0f - t * t) * inner);
  }
};

struct AddScaled {
  float scale;
  __device__ float operator()(float a, float b) const { return a + scale * b; }
};
struct ScaleShift {
  float scale, shift;
  __device__ float operator()(float x) const { return scale * x + shift; }
};
struct SwiGlu {
  __device__ float operator()(float gate, float up) const { return gate * logistic(gate) * up; }
};
struct DropoutGradient {
  float scale;
  __device__ float operator()(float d, float kept) const { return d * kept * scale; }
};

template <class T, class F>
Status map_one(F f, const void* in, void* out, std::int64_t n, cudaStream_t stream) {
  return map(f, n, stream, static_cast<T*>(out), static_cast<const T*>(in));
}
template <class T, class F>
Status map_two(F f, const void* a, const void* b, void* out, std::int64_t n, cudaStream_t stream) {
  return map(f, n, stream, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b));
}

template <class T>
__global__ void add_bias_kernel(const T* in, const T* bias, T* out, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    for (std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; c < columns;
         c += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
      out[row * columns + c] = from_float<T>(to_float(in[row * columns + c]) + to_float(bias[c]));
    }
  }
}

template <class T, int Width>
__global__ void add_bias_packed_kernel(const T* in, const T* bias, T* out, std::int64_t rows,
                                       std::int64_t packs) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * packs;
       i += stride) {
    auto x = load_pack<T, Width>(in + i * Width);
    const auto b = load_pack<T, Width>(bias + i % packs * Width);
#pragma unroll
    for (int j = 0; j < Width; ++j) x.v[j] = from_float<T>(to_float(x.v[j]) + to_float(b.v[j]));
    store_pack<T, Width>(out + i * Width, x);
  }
}

template <class T, int Width>
__global__ void swiglu_backward_kernel(const T* gate, const T* up, const T* d_out, T* d_gate, T* d_up,
                                       std::int64_t n) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t p = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; p < n / Width;
       p += stride) {
    auto g = load_pack<T, Width>(gate + p * Width);
    auto u = load_pack<T, Width>(up + p * Width);
    const auto d = load_pack<T, Width>(d_out + p * Width);
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      const float x = to_float(g.v[j]), y = to_float(u.v[j]), dy = to_float(d.v[j]);
      const float s = logistic(x);
      g.v[j] = from_float<T>(dy * y * s * (1.0f + x * (1.0f - s)));
      u.v[j] = from_float<T>(dy * x * s);
    }
    store_pack<T, Width>(d_gate + p * Width, g);
    store_pack<T, Width>(d_up + p * Width, u);
  }
}

template <class T, int Width>
__global__ void dropout_kernel(const T* in, T* out, std::uint8_t* mask, float p, float scale,
                               std::uint64_t seed, std::int64_t n) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < n / Width;
       k += stride) {
    auto x = load_pack<T, Width>(in + k * Width);
    Pack<std::uint8_t, Width> kept;
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      const bool keep = uniform(seed, static_cast<std::uint64_t>(k * Width + j)) >= p;
      kept.v[j] = keep;
      x.v[j] = from_float<T>(keep ? to_float(x.v[j]) * scale : 0.0f);
    }
    store_pack<T, Width>(out + k * Width, x);
    store_pack<std::uint8_t, Width>(mask + k * Width, kept);
  }
}

constexpr int kThreads = 256;

}  // namespace

Status unary(Unary kind, const void* in, void* out, DType dtype, std::int64_t n, cudaStream_t stream) {
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) -> Status {
    switch (kind) {
      case Unary::negate:
        return map_one<T>(UnaryFunction<Unary::negate>{}, in, out, n, stream);
      case Unary::exponential:
        return map_one<T>(UnaryFunction<Unary::exponential>{}, in, out, n, stream);
      case Unary::sigmoid:
        return map_one<T>(UnaryFunction<Unary::sigmoid>{}, in, out, n, stream);
      case Unary::silu:
        return map_one<T>(UnaryFunction<Unary::silu>{}, in, out, n, stream);
      case Unary::gelu:
        return map_one<T>(UnaryFunction<Unary::gelu>{}, in, out, n, stream);
      case Unary::gelu_tanh:
        return map_one<T>(UnaryFunction<Unary::gelu_tanh>{}, in, out, n, stream);
      case Unary::relu:
        return map_one<T>(UnaryFunction<Unary::relu>{}, in, out, n, stream);
      case Unary::hyperbolic_tangent:
        return map_one<T>(UnaryFunction<Unary::hyperbolic_tangent>{}, in, out, n, stream);
      case Unary::reciprocal_root:
        return map_one<T>(UnaryFunction<Unary::reciprocal_root>{}, in, out, n, stream);
    }
    return fail("unary: unknown function");
  });
}

Status binary(Binary kind, const void* a, const void* b, void* out, DType dtype, std::int64_t n,
              cudaStream_t stream) {
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) -> Status {
    switch (kind) {
      case Binary::add:
        return map_two<T>(BinaryFunction<Binary::add>{}, a, b, out, n, stream);
      case Binary::subtract:
        return map_two<T>(BinaryFunction<Binary::subtract>{}, a, b, out, n, stream);
      case Binary::multiply:
        return map_two<T>(BinaryFunction<Binary::multiply>{}, a, b, out, n, stream);
      case Binary::divide:
        return map_two<T>(BinaryFunction<Binary::divide>{}, a, b, out, n, stream);
      case Binary::maximum:
        return map_two<T>(BinaryFunction<Binary::maximum>{}, a, b, out, n, stream);
    }
    return fail("binary: unknown function");
  });
}

Status add_scaled(const void* a, const void* b, float scale, void* out, DType dtype, std::int64_t n,
                  cudaStream_t stream) {
  return with_float_type(
      dtype, [&]<class T>(TypeTag<T>) { return map_two<T>(AddScaled{scale}, a, b, out, n, stream); });
}

Status scale_shift(const void* in, float scale, float shift, void* out, DType dtype, std::int64_t n,
                   cudaStream_t stream) {
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) {
    return map_one<T>(ScaleShift{scale, shift}, in, out, n, stream);
  });
}

Status add_bias(const void* in, const void* bias, void* out, DType dtype, std::int64_t rows,
                std::int64_t columns, cudaStream_t stream) {
  if (rows <= 0 || columns <= 0) return {};
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) -> Status {
    constexpr int kWidth = 16 / sizeof(T);
    const auto* x = static_cast<const T*>(in);
    const auto* b = static_cast<const T*>(bias);
    auto* y = static_cast<T*>(out);
    if (columns % kWidth == 0 && aligned16(x, b, y)) {
      const std::int64_t packs = columns / kWidth;
      add_bias_packed_kernel<T, kWidth>
          <<<grid_for(rows * packs, kThreads, 16), kThreads, 0, stream>>>(x, b, y, rows, packs);
    } else {
      const dim3 grid(grid_for(columns, kThreads, 1), grid_for(rows, 1, 16));
      add_bias_kernel<T><<<grid, kThreads, 0, stream>>>(x, b, y, rows, columns);
    }
    return HEADROOM_LAUNCHED();
  });
}

Status activation_backward(Activation kind, const void* in, const void* d_out, void* d_in, DType dtype,
                           std::int64_t n, cudaStream_t stream) {
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) -> Status {
    switch (kind) {
      case Activation::silu:
        return map_two<T>(ActivationGradient<Activation::silu>{}, in, d_out, d_in, n, stream);
      case Activation::gelu:
        return map_two<T>(ActivationGradient<Activation::gelu>{}, in, d_out, d_in, n, stream);
      case Activation::gelu_tanh:
        return map_two<T>(ActivationGradient<Activation::gelu_tanh>{}, in, d_out, d_in, n, stream);
      case Activation::relu:
        return map_two<T>(ActivationGradient<Activation::relu>{}, in, d_out, d_in, n, stream);
    }
    return fail("activation: unknown function");
  });
}

Status swiglu(const void* gate, const void* up, void* out, DType dtype, std::int64_t n, cudaStream_t stream) {
  return with_float_type(dtype,
                         [&]<class T>(TypeTag<T>) { return map_two<T>(SwiGlu{}, gate, up, out, n, stream); });
}

Status swiglu_backward(const void* gate, const void* up, const void* d_out, void* d_gate, void* d_up,
                       DType dtype, std::int64_t n, cudaStream_t stream) {
  if (n <= 0) return {};
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) -> Status {
    const auto launch = [&]<int Width>(std::integral_constant<int, Width>) {
      swiglu_backward_kernel<T, Width><<<grid_for(n, kThreads * Width, 16), kThreads, 0, stream>>>(
          static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<const T*>(d_out),
          static_cast<T*>(d_gate), static_cast<T*>(d_up), n);
      return HEADROOM_LAUNCHED();
    };
    constexpr int kWidth = 16 / sizeof(T);
    const bool packed = n % kWidth == 0 && aligned16(gate, up, d_out, d_gate, d_up);
    return packed ? launch(std::integral_constant<int, kWidth>{}) : launch(std::integral_constant<int, 1>{});
  });
}

Status dropout(const void* in, void* out, void* mask, float p, std::uint64_t seed, DType dtype,
               std::int64_t n, cudaStream_t stream) {
  if (n <= 0) return {};
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) -> Status {
    const auto launch = [&]<int Width>(std::integral_constant<int, Width>) {
      dropout_kernel<T, Width><<<grid_for(n, kThreads * Width, 16), kThreads, 0, stream>>>(
          static_cast<const T*>(in), static_cast<T*>(out), static_cast<std::uint8_t*>(mask), p,
          1.0f / (1.0f - p), seed, n);
      return HEADROOM_LAUNCHED();
    };
    constexpr int kWidth = 16 / sizeof(T);
    const bool packed = n % kWidth == 0 && aligned16(in, out, mask);
    return packed ? launch(std::integral_constant<int, kWidth>{}) : launch(std::integral_constant<int, 1>{});
  });
}

Status dropout_backward(const void* d_out, const void* mask, void* d_in, float p, DType dtype, std::int64_t n,
                        cudaStream_t stream) {
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) {
    return map(DropoutGradient{1.0f / (1.0f - p)}, n, stream, static_cast<T*>(d_in),
               static_cast<const T*>(d_out), static_cast<const std::uint8_t*>(mask));
  });
}

}  // namespace headroom::gpu

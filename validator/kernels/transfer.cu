#include "validator/kernels/map.cuh"
#include "validator/kernels/transfer.h"

namespace headroom::gpu {
namespace {

constexpr int kThreads = 256;

struct Identity {
  __device__ float operator()(float x) const { return x; }
};

template <class T, int Width, class F>
__global__ void generate_kernel(F f, std::int64_t n, T* out) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t p = first; p < n / Width; p += stride) {
    Pack<T, Width> x;
#pragma unroll
    for (int j = 0; j < Width; ++j) x.v[j] = from_float<T>(f(p * Width + j));
    store_pack<T, Width>(out + p * Width, x);
  }
  for (std::int64_t i = n / Width * Width + first; i < n; i += stride) out[i] = from_float<T>(f(i));
}

struct Constant {
  float value;
  __device__ float operator()(std::int64_t) const { return value; }
};
struct Random {
  float low, width;
  std::uint64_t seed;
  __device__ float operator()(std::int64_t i) const {
    return low + width * uniform(seed, static_cast<std::uint64_t>(i));
  }
};

template <class F>
Status generate(F f, void* out, DType dtype, std::int64_t n, cudaStream_t stream) {
  if (n <= 0) return {};
  const auto launch = [&]<class T>(TypeTag<T>) {
    constexpr int kWidth = 16 / sizeof(T);
    auto* to = static_cast<T*>(out);
    if (aligned16(to)) {
      generate_kernel<T, kWidth><<<grid_for(n, kThreads * kWidth, 16), kThreads, 0, stream>>>(f, n, to);
    } else {
      generate_kernel<T, 1><<<grid_for(n, kThreads, 16), kThreads, 0, stream>>>(f, n, to);
    }
    return HEADROOM_LAUNCHED();
  };
  switch (dtype) {
    case DType::int64:
      return launch(TypeTag<std::int64_t>{});
    case DType::int32:
      return launch(TypeTag<std::int32_t>{});
    case DType::uint8:
    case DType::int8:
    case DType::boolean:
      return launch(TypeTag<std::uint8_t>{});
    default:
      return with_float_type(dtype, launch);
  }
}

// A tile of [a, b] for one block of 32 x 8 threads; consecutive threads run along c where c > 1, so that only
// plain transposes (c == 1) need the tile in shared memory.
template <class T>
__global__ void permute_rows_kernel(const T* in, T* out, std::int64_t a, std::int64_t b, std::int64_t c) {
  const std::int64_t n = a * b * c, stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    const std::int64_t k = i % c, row = i / c;  // output index: row = j * a + r
    out[i] = in[(row % a * b + row / a) * c + k];
  }
}

constexpr int kTile = 32, kTileRows = 8;

// A tile of kTile accesses a side; an access is `Each` elements, so that small elements too fill whole lines
// both ways. One access of padding a row keeps columns in different banks.
template <class T, int Each>
__global__ void transpose_kernel(const T* in, T* out, std::int64_t a, std::int64_t b) {
  constexpr int kSide = kTile * Each;
  __shared__ __align__(16) T tile[kSide][kSide + Each];
  const std::int64_t tiles_b = (b + kSide - 1) / kSide, tiles = (a + kSide - 1) / kSide * tiles_b;
  const int x = static_cast<int>(threadIdx.x) * Each;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t r0 = t / tiles_b * kSide, c0 = t % tiles_b * kSide;
#pragma unroll
    for (int i = 0; i < kSide / kTileRows; ++i) {
      const int y = i * kTileRows + static_cast<int>(threadIdx.y);
      if (r0 + y < a && c0 + x < b)
        store_pack<T, Each>(&tile[y][x], load_pack<T, Each>(in + (r0 + y) * b + c0 + x));
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSide / kTileRows; ++i) {
      const int y = i * kTileRows + static_cast<int>(threadIdx.y);
      if (c0 + y >= b || r0 + x >= a) continue;
      Pack<T, Each> pack;
#pragma unroll
      for (int j = 0; j < Each; ++j) pack.v[j] = tile[x + j][y];
      store_pack<T, Each>(out + (c0 + y) * a + r0 + x, pack);
    }
    __syncthreads();
  }
}

template <class T, int Each>
Status transpose(const T* in, T* out, std::int64_t a, std::int64_t b, cudaStream_t stream) {
  constexpr int kSide = kTile * Each;
  const std::int64_t tiles = ((a + kSide - 1) / kSide) * ((b + kSide - 1) / kSide);
  transpose_kernel<T, Each><<<grid_for(tiles, 1, 16), dim3(kTile, kTileRows), 0, stream>>>(in, out, a, b);
  return HEADROOM_LAUNCHED();
}

template <class T>
Status permute_as(const void* in, void* out, std::int64_t a, std::int64_t b, std::int64_t c,
                  cudaStream_t stream) {
  const auto* from = static_cast<const T*>(in);
  auto* to = static_cast<T*>(out);
  if (c > 1) {
    permute_rows_kernel<<<grid_for(a * b * c, kThreads, 16), kThreads, 0, stream>>>(from, to, a, b, c);
    return HEADROOM_LAUNCHED();
  }
  if constexpr (sizeof(T) == 2) {
    if (a % 2 == 0 && b % 2 == 0 && aligned16(in, out)) return transpose<T, 2>(from, to, a, b, stream);
  }
  return transpose<T, 1>(from, to, a, b, stream);
}

}  // namespace

Status cast(const void* in, DType from, void* out, DType to, std::int64_t n, cudaStream_t stream) {
  return with_float_type(from, [&]<class In>(TypeTag<In>) {
    return with_float_type(to, [&]<class Out>(TypeTag<Out>) {
      return map(Identity{}, n, stream, static_cast<Out*>(out), static_cast<const In*>(in));
    });
  });
}

Status copy(const void* in, void* out, Bytes bytes, cudaStream_t stream) {
  if (bytes <= 0) return {};
  return HEADROOM_CUDA(
      cudaMemcpyAsync(out, in, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream));
}

Status copy_rows(const void* in, Bytes in_pitch, void* out, Bytes out_pitch, Bytes row_bytes,
                 std::int64_t rows, cudaStream_t stream) {
  if (rows <= 0 || row_bytes <= 0) return {};
  return HEADROOM_CUDA(cudaMemcpy2DAsync(
      out, static_cast<std::size_t>(out_pitch), in, static_cast<std::size_t>(in_pitch),
      static_cast<std::size_t>(row_bytes), static_cast<std::size_t>(rows), cudaMemcpyDeviceToDevice, stream));
}

Status permute(const void* in, void* out, std::int64_t a, std::int64_t b, std::int64_t c, int element_bytes,
               cudaStream_t stream) {
  if (a <= 0 || b <= 0 || c <= 0) return {};
  // Rows of several elements travel in accesses as wide as they allow.
  const std::int64_t row = c * element_bytes;
  if (c > 1 && row % 16 == 0 && aligned16(in, out)) return permute_as<uint4>(in, out, a, b, row / 16, stream);
  switch (element_bytes) {
    case 1:
      return permute_as<std::uint8_t>(in, out, a, b, c, stream);
    case 2:
      return permute_as<std::uint16_t>(in, out, a, b, c, stream);
    case 4:
      return permute_as<std::uint32_t>(in, out, a, b, c, stream);
    case 8:
      return permute_as<std::uint64_t>(in, out, a, b, c, stream);
    default:
      return fail("permute: expected elements of 1, 2, 4 or 8 bytes");
  }
}

Status fill(void* out, float value, DType dtype, std::int64_t n, cudaStream_t stream) {
  return generate(Constant{value}, out, dtype, n, stream);
}

Status fill_random(void* out, float low, float high, std::uint64_t seed, DType dtype, std::int64_t n,
                   cudaStream_t stream) {
  return generate(Random{low, high - low, seed}, out, dtype, n, stream);
}

Status touch(void* out, Bytes bytes, cudaStream_t stream) {
  if (bytes <= 0) return {};
  return HEADROOM_CUDA(cudaMemsetAsync(out, 0, static_cast<std::size_t>(bytes), stream));
}

}  // namespace headroom::gpu

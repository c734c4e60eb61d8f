#pragma once

#include "validator/kernels/numeric.cuh"

/// Warp-level matrix products (m16n8k16, fp32 accumulation) over tiles in shared memory, and how those are
/// filled.
///
/// A fragment register holds two neighbours of the inner dimension. With group g = lane / 4 and t = lane % 4:
/// A (16 x 16) holds rows g, g + 8 at columns 2t, 2t + 8; B (16 x 8) holds column g at rows 2t, 2t + 8; C (16
/// x 8) holds rows g (values 0, 1) and g + 8 (values 2, 3) at columns 2t, 2t + 1.
namespace headroom::gpu {

struct FragmentA {
  std::uint32_t r[4];
};
/// Two B fragments side by side: columns n…n+7 in r[0], r[1] and n+8…n+15 in r[2], r[3].
struct FragmentB2 {
  std::uint32_t r[4];
};

template <class T>
__device__ void multiply_add(float (&c)[4], const FragmentA& a, std::uint32_t b0, std::uint32_t b1);
template <>
__device__ inline void multiply_add<bf16>(float (&c)[4], const FragmentA& a, std::uint32_t b0,
                                          std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void multiply_add<fp16>(float (&c)[4], const FragmentA& a, std::uint32_t b0,
                                          std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}

__device__ inline std::uint32_t pack_pair(float low, float high, bf16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline std::uint32_t pack_pair(float low, float high, fp16) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// Accumulators of two neighbouring C tiles (16 x 16 together) as the A operand of the next product.
template <class T>
__device__ FragmentA as_operand(const float (&left)[4], const float (&right)[4]) {
  return {{pack_pair(left[0], left[1], T{}), pack_pair(left[2], left[3], T{}),
           pack_pair(right[0], right[1], T{}), pack_pair(right[2], right[3], T{})}};
}

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline void load_matrices(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row)));
}
__device__ inline void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row)));
}

__device__ inline void copy_async16(void* to, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes));
}
__device__ inline void copy_async4(void* to, const void* from, bool inside) {
  const int bytes = inside ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes));
}
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;\n");
}
template <int Pending>
__device__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending));
}

/// A tile of Rows x Columns elements of 16 bits in shared memory. The 16-byte chunks of a row are permuted by
/// its number, so that eight rows at one column lie in different banks.
template <class T, int Rows, int Columns>
struct Tile {
  static constexpr int kRows = Rows, kColumns = Columns, kChunks = Columns / 8;
  static constexpr int kBytes = Rows * Columns * static_cast<int>(sizeof(T));
  T* base;

  __device__ T* chunk(int row, int chunk) const { return base + row * Columns + ((chunk ^ (row & 7)) * 8); }

  /// Starts copying `rows` rows of `columns` elements (a multiple of 8); the rest of the tile becomes zero.
  template <int Threads>
  __device__ void fill(const T* from, std::int64_t pitch, int rows, int columns) const {
    for (int i = threadIdx.x; i < Rows * kChunks; i += Threads) {
      const int row = i / kChunks, c = i % kChunks;
      const bool inside = row < rows && c * 8 < columns;
      copy_async16(chunk(row, c), inside ? from + row * pitch + c * 8 : from, inside);
    }
  }

  /// A operand: rows row…row+15, inner elements k…k+15.
  __device__ FragmentA a(int row, int k) const {
    const int lane = threadIdx.x % 32;
    FragmentA f;
    load_matrices(f.r, chunk(row + lane % 16, k / 8 + lane / 16));
    return f;
  }
  /// B operands from a tile stored [n][k]: columns n…n+15, inner elements k…k+15.
  __device__ FragmentB2 b_rows(int n, int k) const {
    const int lane = threadIdx.x % 32;
    FragmentB2 f;
    load_matrices(f.r, chunk(n + lane % 8 + lane / 16 * 8, k / 8 + lane / 8 % 2));
    return f;
  }
  /// B operands from a tile stored [k][n].
  __device__ FragmentB2 b_columns(int k, int n) const {
    const int lane = threadIdx.x % 32;
    FragmentB2 f;
    load_matrices_transposed(f.r, chunk(k + lane % 16, n / 8 + lane / 16));
    return f;
  }
};

}  // namespace headroom::gpu

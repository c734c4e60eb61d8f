#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace headroom::tape {

inline constexpr int kMaxRank = 6;

/// Sizes and strides of a tensor, in elements, inline. Strides decide where eager PyTorch makes copies, so
/// they are kept truthfully: views change them, operators choose their result's as PyTorch's do.
struct Shape {
  std::array<std::int64_t, kMaxRank> size{};
  std::array<std::int64_t, kMaxRank> stride{};
  std::uint8_t rank = 0;

  Shape() = default;
  /// Row-major.
  Shape(std::initializer_list<std::int64_t> sizes);
  static Shape contiguous(std::span<const std::int64_t> sizes);

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= size[i];
    return n;
  }
  /// Sizes by index; negative counts from the end.
  std::int64_t operator[](int i) const { return size[static_cast<std::size_t>(i < 0 ? i + rank : i)]; }
  std::span<const std::int64_t> sizes() const { return {size.data(), rank}; }

  bool same_sizes(const Shape& other) const {
    if (rank != other.rank) return false;
    for (int i = 0; i < rank; ++i)
      if (size[i] != other.size[i]) return false;
    return true;
  }
  bool same_layout(const Shape& other) const;  ///< sizes and strides (those of size 1 ignored)
  /// Row-major; strides of dimensions of size 1 do not matter.
  bool is_contiguous() const {
    std::int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (size[i] == 1) continue;
      if (stride[i] != step) return false;
      step *= size[i];
    }
    return true;
  }
  bool is_dense() const;  ///< some permutation of dimensions is row-major without gaps
};

/// Row-major strides for the sizes.
inline void set_contiguous(Shape& shape) {
  std::int64_t step = 1;
  for (int i = shape.rank - 1; i >= 0; --i) {
    shape.stride[i] = step;
    step *= shape.size[i] > 1 ? shape.size[i] : 1;
  }
}

/// The shape of `from` seen with new sizes (one may be -1) if its strides allow a view; else false and `out`
/// is row-major.
bool view_shape(const Shape& from, std::span<const std::int64_t> sizes, Shape& out);

Shape transpose(Shape shape, int a, int b);
Shape unsqueeze(const Shape& shape, int dimension);
Shape squeeze(const Shape& shape, int dimension);
Shape expand(const Shape& shape, std::span<const std::int64_t> sizes);
Shape slice(Shape shape, int dimension, std::int64_t length);
/// The dimension is indexed away.
Shape select(const Shape& shape, int dimension);

/// Sizes that both broadcast to (row-major strides).
Shape broadcast(const Shape& a, const Shape& b);

/// What an element-wise operator allocates for `sizes` (already broadcast) from these operands: equal dense
/// operands give their strides, else the dimension order that TensorIterator derives from the operands in
/// turn (broadcast dimensions have no say).
Shape elementwise_result(const Shape& sizes, std::span<const Shape* const> operands);

/// What `empty_like` and `clone` preserve: strides of a dense tensor, else the same order without gaps.
Shape like(const Shape& shape);
/// What `.to(dtype)` allocates: strides of a dense tensor, else row-major.
Shape cast_result(const Shape& shape);

}  // namespace headroom::tape

#include "simulator/tape/core/shape.h"

#include <algorithm>

namespace headroom::tape {
namespace {

/// Strides of `operand` over the dimensions of `sizes`; 0 where it is broadcast.
std::array<std::int64_t, kMaxRank> broadcast_strides(const Shape& sizes, const Shape& operand) {
  std::array<std::int64_t, kMaxRank> strides{};
  const int offset = sizes.rank - operand.rank;
  for (int i = 0; i < operand.rank; ++i)
    strides[i + offset] = operand.size[i] == 1 && sizes.size[i + offset] != 1 ? 0 : operand.stride[i];
  return strides;
}

/// Dimension order, fastest first, into dense strides.
void set_ordered(Shape& shape, const std::array<int, kMaxRank>& fastest_first) {
  std::int64_t step = 1;
  for (int i = 0; i < shape.rank; ++i) {
    shape.stride[fastest_first[i]] = step;
    step *= shape.size[fastest_first[i]];
  }
}

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> sizes) : rank(static_cast<std::uint8_t>(sizes.size())) {
  std::copy(sizes.begin(), sizes.end(), size.begin());
  set_contiguous(*this);
}

Shape Shape::contiguous(std::span<const std::int64_t> sizes) {
  Shape shape;
  shape.rank = static_cast<std::uint8_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), shape.size.begin());
  set_contiguous(shape);
  return shape;
}

bool Shape::same_layout(const Shape& other) const {
  if (!same_sizes(other)) return false;
  for (int i = 0; i < rank; ++i)
    if (size[i] != 1 && stride[i] != other.stride[i]) return false;
  return true;
}

bool Shape::is_dense() const {
  if (is_contiguous()) return true;
  std::array<int, kMaxRank> order{};
  int n = 0;
  for (int i = 0; i < rank; ++i) {
    if (size[i] == 1) continue;
    int at = n++;
    for (; at > 0 && stride[order[at - 1]] > stride[i]; --at) order[at] = order[at - 1];
    order[at] = i;
  }
  std::int64_t step = 1;
  for (int i = 0; i < n; ++i) {
    if (stride[order[i]] != step) return false;
    step *= size[order[i]];
  }
  return true;
}

bool view_shape(const Shape& from, std::span<const std::int64_t> sizes, Shape& out) {
  out = Shape::contiguous(sizes);
  std::int64_t known = 1;
  int free = -1;
  for (int i = 0; i < out.rank; ++i) {
    if (out.size[i] < 0)
      free = i;
    else
      known *= out.size[i];
  }
  if (free >= 0) {
    out.size[free] = from.elements() / std::max<std::int64_t>(known, 1);
    set_contiguous(out);
  }
  if (from.is_contiguous()) return true;
  // Walk chunks of dimensions that are contiguous among themselves, fastest first.
  std::array<std::int64_t, kMaxRank> strides{};
  int view = out.rank - 1;
  std::int64_t base = from.stride[from.rank - 1], tensor_elements = 1, view_elements = 1;
  for (int i = from.rank - 1; i >= 0; --i) {
    tensor_elements *= from.size[i];
    const bool chunk_ends = i == 0 || (from.size[i - 1] != 1 && from.stride[i - 1] != tensor_elements * base);
    if (!chunk_ends) continue;
    while (view >= 0 && (view_elements < tensor_elements || out.size[view] == 1)) {
      strides[view] = view_elements * base;
      view_elements *= out.size[view];
      --view;
    }
    if (view_elements != tensor_elements) return false;
    if (i > 0) {
      base = from.stride[i - 1];
      tensor_elements = view_elements = 1;
    }
  }
  if (view != -1) return false;
  out.stride = strides;
  return true;
}

Shape transpose(Shape shape, int a, int b) {
  if (a < 0) a += shape.rank;
  if (b < 0) b += shape.rank;
  std::swap(shape.size[a], shape.size[b]);
  std::swap(shape.stride[a], shape.stride[b]);
  return shape;
}

Shape unsqueeze(const Shape& shape, int dimension) {
  if (dimension < 0) dimension += shape.rank + 1;
  Shape out = shape;
  for (int i = shape.rank; i > dimension; --i) {
    out.size[i] = shape.size[i - 1];
    out.stride[i] = shape.stride[i - 1];
  }
  out.size[dimension] = 1;
  out.stride[dimension] = dimension < shape.rank ? shape.size[dimension] * shape.stride[dimension] : 1;
  ++out.rank;
  return out;
}

Shape select(const Shape& shape, int dimension) {
  if (dimension < 0) dimension += shape.rank;
  Shape out = shape;
  for (int i = dimension; i + 1 < shape.rank; ++i) {
    out.size[i] = shape.size[i + 1];
    out.stride[i] = shape.stride[i + 1];
  }
  --out.rank;
  return out;
}

Shape squeeze(const Shape& shape, int dimension) {
  if (dimension < 0) dimension += shape.rank;
  return shape.size[dimension] == 1 ? select(shape, dimension) : shape;
}

Shape expand(const Shape& shape, std::span<const std::int64_t> sizes) {
  Shape out = Shape::contiguous(sizes);
  const int offset = out.rank - shape.rank;
  for (int i = 0; i < out.rank; ++i) {
    if (i < offset) {
      out.stride[i] = 0;
      continue;
    }
    if (out.size[i] < 0) out.size[i] = shape.size[i - offset];
    out.stride[i] = shape.size[i - offset] == 1 && out.size[i] != 1 ? 0 : shape.stride[i - offset];
  }
  return out;
}

Shape slice(Shape shape, int dimension, std::int64_t length) {
  if (dimension < 0) dimension += shape.rank;
  shape.size[dimension] = length;
  return shape;
}

Shape broadcast(const Shape& a, const Shape& b) {
  if (a.same_sizes(b)) return Shape::contiguous(a.sizes());
  Shape out;
  out.rank = std::max(a.rank, b.rank);
  for (int i = 1; i <= out.rank; ++i) {
    const std::int64_t x = i <= a.rank ? a.size[a.rank - i] : 1;
    const std::int64_t y = i <= b.rank ? b.size[b.rank - i] : 1;
    out.size[out.rank - i] = x == 1 ? y : x;
  }
  set_contiguous(out);
  return out;
}

Shape elementwise_result(const Shape& sizes, std::span<const Shape* const> operands) {
  Shape out = sizes;
  set_contiguous(out);
  // Row-major operands, broadcast or not, never ask for another order.
  if (std::all_of(operands.begin(), operands.end(),
                  [](const Shape* shape) { return shape->is_contiguous(); }))
    return out;
  const bool alike = std::all_of(operands.begin(), operands.end(), [&](const Shape* shape) {
    return shape->same_sizes(sizes) && shape->same_layout(*operands[0]);
  });
  if (alike && operands[0]->is_dense()) return like(*operands[0]);

  std::array<std::array<std::int64_t, kMaxRank>, 4> strides{};
  const std::size_t count = std::min<std::size_t>(operands.size(), strides.size());
  for (std::size_t k = 0; k < count; ++k) strides[k] = broadcast_strides(sizes, *operands[k]);
  // -1: a is the faster one, 1: b, 0: no operand decides.
  const auto slower = [&](int a, int b) {
    for (std::size_t k = 0; k < count; ++k) {
      const std::int64_t x = strides[k][a], y = strides[k][b];
      if (x == 0 || y == 0) continue;
      if (x < y) return -1;
      if (x > y) return 1;
      if (sizes.size[a] > sizes.size[b]) return 1;
    }
    return 0;
  };
  std::array<int, kMaxRank> order{};
  for (int i = 0; i < sizes.rank; ++i) order[i] = sizes.rank - 1 - i;
  for (int i = 1; i < sizes.rank; ++i) {
    int moving = i;
    for (int j = i - 1; j >= 0; --j) {
      const int comparison = slower(order[j], order[moving]);
      if (comparison > 0) {
        std::swap(order[j], order[moving]);
        moving = j;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  set_ordered(out, order);
  return out;
}

Shape like(const Shape& shape) {
  Shape out = shape;
  if (shape.is_contiguous()) {
    set_contiguous(out);
    return out;
  }
  std::array<int, kMaxRank> order{};
  for (int i = 0; i < shape.rank; ++i) order[i] = shape.rank - 1 - i;
  for (int i = 1; i < shape.rank; ++i)
    for (int j = i; j > 0; --j) {
      const int a = order[j - 1], b = order[j];
      if (shape.size[a] == 1 || shape.size[b] == 1 || shape.stride[b] == 0) continue;
      if (shape.stride[b] < shape.stride[a]) std::swap(order[j - 1], order[j]);
    }
  set_ordered(out, order);
  return out;
}

Shape cast_result(const Shape& shape) {
  if (shape.is_dense()) return like(shape);
  return Shape::contiguous(shape.sizes());
}

}  // namespace headroom::tape

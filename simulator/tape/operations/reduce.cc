#include "simulator/tape/operations/reduce.h"

#include <algorithm>
#include <bit>

#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kSum = operation_name("aten::sum"), kSumBackward = operation_name("SumBackward1");
const std::uint16_t kMean = operation_name("aten::mean"), kMeanBackward = operation_name("MeanBackward1");
const std::uint16_t kDiv = operation_name("aten::div");

constexpr std::int64_t kMaxThreads = 512, kMinValues = 16, kMaxValues = 256, kWarp = 32;

struct Merged {
  std::int64_t size, stride;
};

/// Dimensions of one class, fastest first, neighbours merged where memory runs on.
struct MergedDimensions {
  std::array<Merged, kMaxRank> dims{};
  int count = 0;
  void add(std::int64_t size, std::int64_t stride) {
    int at = count++;
    for (; at > 0 && dims[at - 1].stride > stride; --at) dims[at] = dims[at - 1];
    dims[at] = {size, stride};
  }
  void merge() {
    int kept = 0;
    for (int i = 1; i < count; ++i) {
      if (dims[i].stride == dims[kept].stride * dims[kept].size)
        dims[kept].size *= dims[i].size;
      else
        dims[++kept] = dims[i];
    }
    if (count > 0) count = kept + 1;
  }
};

std::int64_t last_power(std::int64_t n) {
  return n < 1 ? 1 : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
}

Shape reduced(const Shape& shape, unsigned mask, bool keep) {
  Shape out;
  for (int i = 0; i < shape.rank; ++i) {
    const bool gone = (mask >> i & 1u) != 0;
    if (gone && !keep) continue;
    out.size[out.rank++] = gone ? 1 : shape.size[i];
  }
  set_contiguous(out);
  return out;
}

unsigned all_dimensions(const Tensor& tensor) {
  return (1u << tensor.rank()) - 1u;
}

/// Parts that a kernel with 32-bit indices takes a whole tensor in: halved until each lies within 2^31 bytes.
std::int64_t indexed_pieces(const Tensor& tensor) {
  constexpr Bytes kMost = (Bytes{1} << 31) - 1;
  std::int64_t pieces = 1;
  while (tensor.bytes() / pieces > kMost) pieces *= 2;
  return pieces;
}

void sum_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  Tensor gradient = in[0];
  const unsigned mask = static_cast<unsigned>(node.numbers[0]);
  if (node.numbers[1] == 0)
    for (int i = 0; i < node.shape.rank; ++i)
      if ((mask >> i & 1u) != 0) gradient = unsqueeze(std::move(gradient), i);
  Tape& tape = *node.tape;
  out[0] = tape.alias(gradient, expand(gradient.shape(), node.shape.sizes()));
}

void mean_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  std::array<Tensor, 1> expanded;
  sum_backward(node, in, expanded);
  out[0] = elementwise(kDiv, in[0].dtype(), {&expanded[0]});
}

Tensor differentiable(std::uint16_t name, std::uint16_t backward, Formula formula, Arg self, unsigned mask,
                      bool keep) {
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self)) {
    node = tape.node(backward, formula, {&*self});
    node->numbers = {mask, keep ? 1 : 0};
    node->shape = self->shape();
  }
  // Autocast sums in fp32.
  const bool widened = name == kSum && tape.autocast().enabled &&
                       (self->dtype() == DType::bf16 || self->dtype() == DType::fp16);
  const DType result = widened ? DType::fp32 : self->dtype();
  Tensor out = reduce(name, result, result == DType::int64 ? 8 : 4, *self, mask, keep);
  tape.attach(out, node);
  done(self);
  return out;
}

}  // namespace

SplitReduction split_reduction(const DeviceTraits& traits, const Shape& shape, unsigned mask,
                               Bytes accumulator) {
  MergedDimensions inner, outer;
  std::int64_t inputs = 1, outputs = 1;
  for (int i = 0; i < shape.rank; ++i) {
    const bool gone = (mask >> i & 1u) != 0;
    (gone ? inputs : outputs) *= shape.size[i];
    if (shape.size[i] != 1) (gone ? inner : outer).add(shape.size[i], shape.stride[i]);
  }
  if (inputs <= 1 || outputs == 0) return {};
  inner.merge();
  outer.merge();
  const bool fast = outer.count == 0 || inner.dims[0].stride < outer.dims[0].stride;
  std::int64_t vector = 1, x = inputs, y = outputs;
  if (fast) {
    if (outer.count == 0 && inner.count == 1 && inner.dims[0].stride == 1 && inputs > 128) x = inputs / 4;
  } else {
    if (outer.dims[0].stride == 1)
      for (vector = 4; outer.dims[0].size % vector != 0;) vector /= 2;
    x = outputs / vector;
    y = inputs;
  }
  const std::int64_t threads = kMaxThreads / vector;
  const std::int64_t px = x < threads ? last_power(x) : threads, py = y < threads ? last_power(y) : threads;
  std::int64_t width = std::min(px, kWarp);
  const std::int64_t height = std::min(py, threads / width);
  width = std::min(px, threads / height);
  std::int64_t step_in = fast ? width : 1, step_out = fast ? 1 : width;
  std::int64_t values = ceil_div(inputs, step_in);
  const bool split = values >= height * kMinValues || values >= kMaxValues;
  (split ? step_in : step_out) *= height;
  values = ceil_div(inputs, step_in);
  const std::int64_t grid = ceil_div(outputs / vector, step_out);
  const std::int64_t target = traits.multiprocessors * (traits.threads_per_multiprocessor / (width * height));
  if (!split || values < kMaxValues || grid > target) return {};
  const std::int64_t blocks =
      std::max(std::min(ceil_div(target, grid), ceil_div(values, kMinValues)), ceil_div(values, kMaxValues));
  if (blocks <= 1) return {};
  SplitReduction out;
  out.buffer = accumulator * outputs * blocks * (fast ? 1 : width * vector);
  out.semaphores = 4 * grid;
  return out;
}

Tensor reduce(std::uint16_t name, DType result, Bytes accumulator, Arg self, unsigned mask, bool keep) {
  Tape& tape = self->tape();
  Tensor out = tape.empty(reduced(self->shape(), mask, keep), result, name);
  Tensor buffer, semaphores;
  const std::int64_t pieces = mask == all_dimensions(*self) ? indexed_pieces(*self) : 1;
  for (std::int64_t i = 0; i < pieces; ++i) {
    drop(semaphores, buffer);
    const Shape piece = pieces == 1 ? self->shape() : Shape{self->elements() / pieces};
    const SplitReduction split = split_reduction(tape.traits(), piece, pieces == 1 ? mask : 1u, accumulator);
    if (split.buffer == 0) continue;
    const ComponentScope component(tape, Component::temporaries);
    buffer = tape.empty({split.buffer}, DType::uint8, name);
    semaphores = tape.empty({split.semaphores}, DType::uint8, name);
  }
  if (tape.wants_operations()) Work(tape, OperationKind::reduce, name).in(*self).out(out).in(buffer).run();
  drop(semaphores, buffer);
  done(self);
  return out;
}

Tensor sum(Arg self, unsigned mask, bool keep) {
  return differentiable(kSum, kSumBackward, sum_backward, self, mask, keep);
}

Tensor sum(Arg self) {
  return sum(self, all_dimensions(*self), false);
}

Tensor mean(Arg self, int dimension, bool keep) {
  if (dimension < 0) dimension += self->rank();
  return differentiable(kMean, kMeanBackward, mean_backward, self, 1u << dimension, keep);
}

Tensor mean(Arg self) {
  return differentiable(kMean, kMeanBackward, mean_backward, self, all_dimensions(*self), false);
}

Tensor sum_to(Arg self, const Shape& sizes) {
  const int leading = self->rank() - sizes.rank;
  unsigned mask = 0;
  for (int i = 0; i < self->rank(); ++i)
    if (i < leading || (sizes.size[i - leading] == 1 && self->shape().size[i] != 1)) mask |= 1u << i;
  Tensor out = sum(self, mask, true);
  return leading > 0 ? reshape(std::move(out), sizes.sizes()) : out;
}

}  // namespace headroom::tape

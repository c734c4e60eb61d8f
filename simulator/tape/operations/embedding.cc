#include "simulator/tape/operations/embedding.h"

#include <algorithm>
#include <array>

#include "simulator/tape/operations/radix_sort.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kEmbedding = operation_name("aten::embedding"),
                    kEmbeddingBackward = operation_name("EmbeddingBackward0");

/// Above this, embedding_dense_backward sorts the indices and sums segment by segment.
constexpr std::int64_t kUnsortedIndices = 3072;
constexpr std::int64_t kRowsAThread = 10;

/// CUB's scratch memory for a scan: the state of every tile and of 32 before the first.
constexpr std::int64_t kAlignment = 256, kScanTile = 512;
Bytes scan_scratch(std::int64_t n) {
  return ceil_div(8 * (32 + ceil_div(n, kScanTile)), kAlignment) * kAlignment + 3 * kAlignment - 1;
}
constexpr Bytes kUniqueScratch = 1279;

void embedding_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor indices = node.unpack(0);
  Tape& tape = *node.tape;
  const std::uint16_t name = node.name;
  const std::int64_t n = indices.elements(), rows = node.shape[0], width = node.shape[1];
  const auto integers = [&](std::int64_t count) { return tape.empty({count}, DType::int64, name); };
  if (n <= kUnsortedIndices) {
    out[0] = tape.empty({rows, width}, in[0].dtype(), name);
    if (tape.wants_operations())
      Work(tape, OperationKind::embedding_backward, name).in(in[0]).in(indices).out(out[0]).run();
    return;
  }
  const Tensor sorted = integers(n), origin = integers(n);
  {
    const Tensor range = integers(n);
    const Tensor sorting = tape.empty({radix_sort_scratch(n)}, DType::uint8, name);
  }
  out[0] = tape.empty({rows, width}, in[0].dtype(), name);
  const Tensor segments = integers(n), count = integers(1);
  {
    const Tensor keys = integers(n);
    const Tensor unique = tape.empty({kUniqueScratch}, DType::uint8, name);
  }
  const std::int64_t most = std::min(n, rows);
  const Tensor partials = integers(most), offsets = integers(most);
  { const Tensor scan = tape.empty({scan_scratch(most)}, DType::uint8, name); }
  const Tensor partial_count = integers(1);
  const std::int64_t pieces = n / kRowsAThread + most;
  const Tensor piece_offsets = integers(pieces);
  const Tensor sums = tape.empty({pieces, width}, DType::fp32, name);
  if (tape.wants_operations())
    Work(tape, OperationKind::embedding_backward, name).in(in[0]).in(indices).in(sums).out(out[0]).run();
}

}  // namespace

Tensor embedding(const Tensor& weight, Arg indices) {
  Tape& tape = weight.tape();
  Node* node = nullptr;
  if (tape.grad_enabled() && weight.requires_grad()) {
    node = tape.node(kEmbeddingBackward, embedding_backward, {&weight});
    node->shape = weight.shape();
    tape.save(node, *indices);
  }
  Shape shape = Shape::contiguous(indices->shape().sizes());
  shape.size[shape.rank++] = weight.size(1);
  set_contiguous(shape);
  Tensor out = tape.empty(shape, weight.dtype(), kEmbedding);
  if (tape.wants_operations())
    Work(tape, OperationKind::embedding, kEmbedding).in(weight).in(*indices).out(out).run();
  tape.attach(out, node);
  done(indices);
  return out;
}

}  // namespace headroom::tape

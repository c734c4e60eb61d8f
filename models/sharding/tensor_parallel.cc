#include "models/sharding/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom {
namespace {

tl::unexpected<Error> indivisible(const Tensor& tensor, std::int64_t size, std::int64_t ranks) {
  return fail(
      Error{.message = fmt::format("expected {} of {} to divide over {} ranks", size, tensor.name, ranks),
            .file = {},
            .key = tensor.expert == -1 ? "tensor_parallel" : "expert_parallel"});
}

/// The dimension that `split` cuts in a matrix stored as `tensor` says; -1: none (the bias of a row-split
/// linear).
int cut_dimension(const Tensor& tensor, Split split) {
  const int rank = static_cast<int>(tensor.shape.size());
  const int stacked = tensor.expert == -2 ? 1 : 0;
  if (rank - stacked == 1) return split == Split::row ? -1 : stacked;
  const bool output = split != Split::row;
  return stacked + (output != tensor.transposed ? 0 : 1);
}

Result<LocalTensor> even(const Tensor& tensor, LocalTensor local, int dimension, std::int64_t ranks) {
  if (dimension < 0 || ranks == 1) return local;
  std::int64_t& size = local.shape[static_cast<size_t>(dimension)];
  if (size % ranks != 0) return indivisible(tensor, size, ranks);
  size /= ranks;
  local.pieces *= ranks;
  return local;
}

Result<LocalTensor> vocabulary_rows(const Tensor& tensor, LocalTensor local, const TensorCut& cut) {
  const std::int64_t whole = local.count();
  HEADROOM_ASSIGN(local.shape[0], padded_vocabulary(local.shape[0], cut.vocabulary, cut.tensor));
  local.padding = local.count() - whole;
  return even(tensor, std::move(local), 0, cut.tensor);
}

/// Key/value heads that one rank holds: its share, or one of them when they are fewer than ranks.
std::int64_t local_heads(std::int64_t heads, std::int64_t ranks) {
  return std::max<std::int64_t>(1, heads / ranks);
}

/// Rows by head. A fused projection has the queries' rows and twice the keys'; what several ranks repeat
/// counts as padding, as each of their pieces is its own.
Result<LocalTensor> heads(const Architecture& model, const Tensor& tensor, LocalTensor local,
                          const TensorCut& cut) {
  const Attention& attention = model.decoder.layer(tensor.layer).attention;
  const int dimension = cut_dimension(tensor, Split::qkv);
  const std::int64_t ranks = cut.tensor;
  if (!cut.repeat_kv_heads || attention.kv_heads % ranks == 0) {
    if (attention.heads % ranks != 0) return indivisible(tensor, attention.heads, ranks);
    return even(tensor, std::move(local), dimension, ranks);
  }
  if (attention.heads % ranks != 0 || ranks % attention.kv_heads != 0)
    return indivisible(tensor, attention.kv_heads, ranks);
  std::int64_t& rows = local.shape[static_cast<size_t>(dimension)];
  const std::int64_t whole = tensor.count();
  const std::int64_t keys = local_heads(attention.kv_heads, ranks) * attention.head_dim;
  const bool fused = rows == (attention.heads + 2 * attention.kv_heads) * attention.head_dim;
  rows = fused ? attention.heads / ranks * attention.head_dim + 2 * keys : keys;
  local.pieces = fused ? ranks : attention.kv_heads;
  local.padding = local.count() * local.pieces - whole;
  return local;
}

Result<LocalTensor> expert_tensor(const Tensor& tensor, LocalTensor local, const TensorCut& cut) {
  if (tensor.expert == -2) {
    HEADROOM_ASSIGN(local, even(tensor, std::move(local), 0, cut.expert));
  }
  if (tensor.split == Split::replicated) return local;
  return even(tensor, std::move(local), cut_dimension(tensor, tensor.split), cut.expert_tensor);
}

}  // namespace

std::int64_t LocalTensor::count() const {
  std::int64_t elements = 1;
  for (std::int64_t size : shape) elements *= size;
  return elements;
}

Result<LocalTensor> local_tensor(const Architecture& model, const Tensor& tensor, const TensorCut& cut) {
  LocalTensor local{.shape = tensor.shape};
  if (tensor.expert != -1) return expert_tensor(tensor, std::move(local), cut);
  if (tensor.place == Place::vision && !cut.cut_vision) return local;
  switch (tensor.split) {
    case Split::replicated:
      return local;
    case Split::vocabulary:
      return vocabulary_rows(tensor, std::move(local), cut);
    case Split::qkv:
      return heads(model, tensor, std::move(local), cut);
    case Split::column:
    case Split::row:
      return even(tensor, std::move(local), cut_dimension(tensor, tensor.split), cut.tensor);
  }
  return local;
}

}  // namespace headroom

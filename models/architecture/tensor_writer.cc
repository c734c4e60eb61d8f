#include "models/architecture/tensor_writer.h"

#include <utility>

namespace headroom {

Tensor& TensorWriter::add(std::string_view name, std::string_view suffix, std::vector<std::int64_t> shape,
                          TensorRole role, Split split) {
  Tensor& tensor = model_.tensors.emplace_back();
  tensor.name.reserve(prefix_.size() + name.size() + suffix.size());
  tensor.name.append(prefix_).append(name).append(suffix);
  tensor.shape = std::move(shape);
  tensor.dtype = model_.dtype;
  tensor.role = role;
  tensor.split = split;
  tensor.place = place_;
  tensor.layer = layer_;
  return tensor;
}

void TensorWriter::embedding(std::string_view name, std::int64_t rows, std::int64_t columns, Split split) {
  add(name, ".weight", {rows, columns}, TensorRole::embedding, split);
}

void TensorWriter::linear(std::string_view name, std::int64_t out, std::int64_t in, Split split, bool bias) {
  add(name, ".weight", {out, in}, TensorRole::linear, split);
  if (bias) add(name, ".bias", {out}, TensorRole::bias, split == Split::row ? Split::replicated : split);
}

void TensorWriter::conv1d(std::string_view name, std::int64_t in, std::int64_t out, Split split) {
  add(name, ".weight", {in, out}, TensorRole::linear, split).transposed = true;
  add(name, ".bias", {out}, TensorRole::bias, split == Split::row ? Split::replicated : split);
}

void TensorWriter::norm(std::string_view name, const Norm& norm) {
  if (!norm.present()) return;
  if (norm.weight) add(name, ".weight", {norm.size}, TensorRole::norm, Split::replicated);
  if (norm.bias) add(name, ".bias", {norm.size}, TensorRole::norm, Split::replicated);
}

void TensorWriter::parameter(std::string_view name, std::vector<std::int64_t> shape, TensorRole role,
                             Split split) {
  add(name, "", std::move(shape), role, split);
}

void TensorWriter::experts(std::string_view name, std::vector<std::int64_t> shape, Split split,
                           bool transposed) {
  Tensor& tensor = add(name, "", std::move(shape), TensorRole::experts, split);
  tensor.expert = -2;
  tensor.transposed = transposed;
}

void TensorWriter::buffer(std::string_view name, std::vector<std::int64_t> shape, DType dtype) {
  Tensor& tensor = add(name, "", std::move(shape), TensorRole::other, Split::replicated);
  tensor.buffer = true;
  tensor.trainable = false;
  tensor.dtype = dtype;
}

void TensorWriter::head(std::string_view name, std::string_view embedding, std::int64_t features,
                        std::string_view tokens) {
  prefix_.clear();
  place_ = Place::head;
  const Decoder& decoder = model_.decoder;
  switch (model_.head) {
    case HeadKind::language_model:
      add(name, ".weight", {decoder.vocabulary, features}, TensorRole::linear, Split::vocabulary).tied_to =
          decoder.tied_embeddings ? embedding : std::string_view{};
      if (decoder.head_bias) add(name, ".bias", {decoder.vocabulary}, TensorRole::bias, Split::vocabulary);
      break;
    case HeadKind::scalar:
      linear("v_head", 1, features, Split::replicated);
      break;
    case HeadKind::sequence_classification:
      linear("score", model_.labels, features, Split::replicated);
      break;
    case HeadKind::token_classification:
      linear(tokens, model_.labels, features, Split::replicated, true);
      break;
  }
}

void TensorWriter::begin_layer(std::string_view prefix, std::int64_t index) {
  prefix_.assign(prefix).append(1, '.').append(std::to_string(index)).append(1, '.');
  place_ = Place::layer;
  layer_ = static_cast<std::int32_t>(index);
}

void TensorWriter::end_layers() {
  prefix_.clear();
  place_ = Place::final_norm;
  layer_ = -1;
}

}  // namespace headroom

#pragma once

#include <map>
#include <tuple>

#include "simulator/tape/core/tape.h"

namespace headroom::tape::megatron {

/// Memory that Megatron-Core and TransformerEngine keep for a whole process, whatever model asks for it.
class ProcessBuffers {
 public:
  explicit ProcessBuffers(Tape& tape) : tape_(tape) {}

  /// The placeholder that autograd receives for a weight whose gradient was added to the gradient buffer by
  /// the product itself: one tensor for each distinct shape, never freed by training.
  Tensor weight_placeholder(const Shape& shape, DType dtype);
  /// Megatron's global memory buffer, grown to the largest request: the first `shape` elements of it.
  Tensor global_buffer(const Shape& shape, DType dtype);
  /// TransformerEngine's workspaces: one of cuBLAS size + 1 KiB, and four more for grouped products.
  void product_workspace();
  void grouped_workspaces();
  /// FP8: a weight by rows and by columns, quantised once a step into memory that stays.
  void quantised_weight(const Tensor& weight);
  /// Placeholders, quantised weights and the global buffer go, as verl's optimizer offload makes them.
  void clear();

 private:
  Tape& tape_;
  std::map<std::tuple<std::int64_t, std::int64_t, DType>, Tensor> placeholders_;
  std::map<const TensorRecord*, Tensor> quantised_;
  Tensor global_, workspace_;
  Tensor grouped_[4];
};

}  // namespace headroom::tape::megatron

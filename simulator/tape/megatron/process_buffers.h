#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

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
  /// FP8: a weight of `role` by rows and by columns, quantised once a step into memory of the module that it is in,
  /// one of `modules`: it stays, and weights that take its place find it. By columns alone where the weight itself is
  /// kept in FP8.
  void quantised_weight(const Tensor& weight, const std::string& role, const std::string& modules);
  /// Placeholders, quantised weights and the global buffer go, as verl's optimizer offload makes them.
  void clear();

 private:
  Tape& tape_;
  std::map<std::tuple<std::int64_t, std::int64_t, DType>, Tensor> placeholders_;
  using Sizes = std::pair<std::string, std::int64_t>;  ///< of a role, an element count

  std::map<const TensorRecord*, Tensor> quantised_;
  std::map<Sizes, std::vector<Tensor>> in_modules_;
  std::map<Sizes, std::size_t> placed_;
  Tensor global_, workspace_;
  Tensor grouped_[4];
};

}  // namespace headroom::tape::megatron

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// Builds the Operation that executors which compute receive. Use behind `tape.wants_operations()`:
///   if (tape.wants_operations()) Work(tape, OperationKind::matmul, kMm).in(a).in(b).out(c).run();
class Work {
 public:
  Work(Tape& tape, OperationKind kind, std::uint16_t name) : tape_(tape) {
    operation_.kind = kind;
    operation_.label = tape.label();
    operation_.label.operation = tape.operation() != 0 ? tape.operation() : name;
    operation_.stream = tape.stream();
  }
  Work& in(const Tensor& tensor) {
    if (tensor.defined() && inputs_ < kMost) {
      shapes_[inputs_] = &tensor.shape();
      std::construct_at(&in_.items[inputs_++], operand(tensor));
    }
    return *this;
  }
  Work& out(const Tensor& tensor) {
    if (tensor.defined() && outputs_ < kMost) {
      if (outputs_ == 0) result_ = &tensor.shape();
      std::construct_at(&out_.items[outputs_++], operand(tensor));
    }
    return *this;
  }
  Work& sizes(std::initializer_list<std::int64_t> sizes) {
    std::copy(sizes.begin(), sizes.end(), operation_.sizes.begin());
    return *this;
  }
  Work& flops(double flops) {
    operation_.flops = flops;
    return *this;
  }
  void run() {
    operation_.inputs = {in_.items, inputs_};
    operation_.outputs = {out_.items, outputs_};
    operation_.dtype = outputs_ > 0 ? out_.items[0].dtype : DType::bf16;
    if (operation_.sizes[0] == 0 && outputs_ > 0) operation_.sizes[0] = out_.items[0].elements;
    for (const auto operands : {operation_.inputs, operation_.outputs})
      for (const Operand& one : operands)
        if (one.host == kNoHostBlock) operation_.bytes += bytes_of(one.dtype, one.elements);
    operation_.by_element = by_element();
    if (!tape_.stopped()) tape_.memory().run(operation_);
  }

 private:
  bool by_element() const {
    switch (operation_.kind) {
      case OperationKind::matmul:
        for (std::size_t i = 0; i < std::min<std::size_t>(2, inputs_); ++i)
          if (unaligned(*shapes_[i], in_.items[i].dtype)) return true;
        return result_ != nullptr && unaligned(*result_, out_.items[0].dtype);
      case OperationKind::copy:
        // Of joined tensors each goes to a part of the result.
        if (inputs_ > 1)
          return std::any_of(shapes_, shapes_ + inputs_, [](const Shape* one) { return !one->is_contiguous(); });
        [[fallthrough]];
      case OperationKind::elementwise:
        return result_ != nullptr && std::any_of(shapes_, shapes_ + inputs_, [this](const Shape* one) {
                 return one->rank > 0 && !one->same_layout(*result_);
               });
      default:
        return false;
    }
  }
  /// Rows, or columns, of the last two dimensions begin at other than multiples of 16 bytes.
  static bool unaligned(const Shape& shape, DType dtype) {
    constexpr Bytes kVector = 16;
    if (shape.rank < 2) return false;
    const auto row = static_cast<std::size_t>(shape.rank - 2), column = row + 1;
    const std::int64_t step = std::max(shape.size[row] > 1 ? shape.stride[row] : 1,
                                       shape.size[column] > 1 ? shape.stride[column] : 1);
    return step > 1 && bytes_of(dtype, step) % kVector != 0;
  }

  static constexpr std::size_t kMost = 12;
  /// Room that is not filled beforehand: most operations have two or three.
  struct Operands {
    Operands() {}
    union {
      Operand items[kMost];
    };
  };
  static_assert(std::is_trivially_destructible_v<Operand>);

  static Operand operand(const Tensor& t) {
    return {t->storage->block, t->storage->host, t.dtype(), t->offset, t.elements()};
  }

  Tape& tape_;
  Operation operation_;
  Operands in_, out_;
  const Shape* shapes_[kMost];
  const Shape* result_ = nullptr;
  std::size_t inputs_ = 0, outputs_ = 0;
};

}  // namespace headroom::tape

#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

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
    if (tensor.defined() && inputs_ < operands_in_.size()) operands_in_[inputs_++] = operand(tensor);
    return *this;
  }
  Work& out(const Tensor& tensor) {
    if (tensor.defined() && outputs_ < operands_out_.size()) operands_out_[outputs_++] = operand(tensor);
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
    operation_.inputs = {operands_in_.data(), inputs_};
    operation_.outputs = {operands_out_.data(), outputs_};
    operation_.dtype = outputs_ > 0 ? operands_out_[0].dtype : DType::bf16;
    if (operation_.sizes[0] == 0 && outputs_ > 0) operation_.sizes[0] = operands_out_[0].elements;
    for (std::size_t i = 0; i < inputs_; ++i)
      operation_.bytes += bytes_of(operands_in_[i].dtype, operands_in_[i].elements);
    for (std::size_t i = 0; i < outputs_; ++i)
      operation_.bytes += bytes_of(operands_out_[i].dtype, operands_out_[i].elements);
    if (!tape_.stopped()) tape_.memory().run(operation_);
  }

 private:
  static Operand operand(const Tensor& t) { return {t->storage->block, t.dtype(), t->offset, t.elements()}; }

  Tape& tape_;
  Operation operation_;
  std::array<Operand, 12> operands_in_{}, operands_out_{};
  std::size_t inputs_ = 0, outputs_ = 0;
};

}  // namespace headroom::tape

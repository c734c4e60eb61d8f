#pragma once

#include <array>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// What bitsandbytes keeps beside a weight in four bits: a scale of one byte for each 64 elements, a fp32 scale of
/// those for each 256 of them, both code books, and an offset ("double quantisation").
/// Source: bitsandbytes 0.45, functional.py: quantize_4bit with compress_statistics.
class FourBitScales {
 public:
  FourBitScales(Tape& tape, std::int64_t elements);
  std::array<Tensor*, 5> tensors() { return {&scales_, &nested_, &codes_, &nested_codes_, &offset_}; }
  /// The scales in fp32, as they are needed to widen a weight.
  Tensor widened(std::uint16_t operation) const;

 private:
  Tensor scales_, nested_, codes_, nested_codes_, offset_;
};

/// torch.nn.functional.linear with a frozen weight [out, in] in four bits (bitsandbytes' MatMul4Bit): the weight is
/// widened to the input's dtype for the product, forward and backward, and let go at once; nothing is saved.
Tensor linear_four_bit(Arg input, const Tensor& weight, const FourBitScales& scales, const Tensor& bias);

}  // namespace headroom::tape

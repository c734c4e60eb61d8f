#pragma once

#include <cstdint>

#include "models/base/result.h"

namespace headroom {

/// How a runtime pads the rows of embedding and head before it cuts them over tensor-parallel ranks.
struct VocabularyRule {
  std::int64_t multiple = 1;  ///< make_vocab_size_divisible_by; 1: no padding
  bool times_tensor = false;  ///< the multiple counts for each rank

  /// Megatron-LM and Megatron-Bridge: to `multiple` (128) times the tensor-parallel size.
  static constexpr VocabularyRule megatron(std::int64_t multiple = 128) { return {multiple, true}; }
  /// mbridge (verl): none unless make_vocab_size_divisible_by is set, which then does not count for each
  /// rank.
  static constexpr VocabularyRule mbridge(std::int64_t multiple = 1) { return {multiple, false}; }
  /// vLLM and SGLang: to 64, then split evenly.
  static constexpr VocabularyRule engine() { return {64, false}; }
};

/// Rows after padding. An error naming the key when they do not divide by `tensor`.
Result<std::int64_t> padded_vocabulary(std::int64_t vocabulary, const VocabularyRule& rule,
                                       std::int64_t tensor);

}  // namespace headroom

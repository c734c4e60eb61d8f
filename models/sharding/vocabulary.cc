#include "models/sharding/vocabulary.h"

#include <fmt/format.h>

#include "models/base/bytes.h"

namespace headroom {

Result<std::int64_t> padded_vocabulary(std::int64_t vocabulary, const VocabularyRule& rule,
                                       std::int64_t tensor) {
  const std::int64_t rows = round_up(vocabulary, rule.multiple * (rule.times_tensor ? tensor : 1));
  if (rows % tensor != 0)
    return fail(
        Error{.message = fmt::format("expected {} rows of the vocabulary to divide over {} tensor-parallel "
                                     "ranks; make_vocab_size_divisible_by pads them",
                                     rows, tensor),
              .file = {},
              .key = "make_vocab_size_divisible_by"});
  return rows;
}

}  // namespace headroom

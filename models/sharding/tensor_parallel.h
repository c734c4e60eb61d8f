#pragma once

#include <cstdint>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/result.h"
#include "models/sharding/vocabulary.h"

namespace headroom {

/// How the ranks of one model replica cut its weights.
struct TensorCut {
  std::int64_t tensor = 1;         ///< ranks that cut dense weights
  std::int64_t expert = 1;         ///< ranks over which whole routed experts are dealt out
  std::int64_t expert_tensor = 1;  ///< ranks that cut each routed expert
  VocabularyRule vocabulary{};
  /// Key/value heads fewer than ranks: whole heads are repeated (vLLM, SGLang), or the rows of their
  /// projections are cut all the same and the outputs gathered (Megatron).
  bool repeat_kv_heads = true;
  /// Vision towers are whole on every rank (vLLM's default for small towers, Megatron), or cut like the
  /// decoder.
  bool cut_vision = false;
};

/// A weight on one rank. All ranks hold the same shape.
struct LocalTensor {
  std::vector<std::int64_t> shape;
  std::int64_t pieces = 1;   ///< distinct parts over the ranks; each is held by ranks / pieces of them
  std::int64_t padding = 0;  ///< elements of all pieces together that the whole does not have
  std::int64_t count() const;
};

/// The shape of `tensor` on each rank, so that count() × pieces = tensor.count() + padding. The ranks are the
/// tensor group for dense weights, expert × expert_tensor for routed experts. Whether a tied head exists on a
/// rank is a matter of the pipeline. An error names the dimension that does not divide.
Result<LocalTensor> local_tensor(const Architecture& model, const Tensor& tensor, const TensorCut& cut);

}  // namespace headroom

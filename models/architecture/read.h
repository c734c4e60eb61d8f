#pragma once

#include <optional>
#include <string>

#include "models/architecture/architecture.h"
#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom {

/// What a `config.json` does not say but the run decides.
struct ReadOptions {
  /// The head; by default what `architectures` names (…ForSequenceClassification, …ForTokenClassification),
  /// else a language model's.
  std::optional<HeadKind> head{};
  /// Rows of a classification head; by default the config's `num_labels` or `id2label`, else 2.
  std::optional<std::int64_t> labels{};
};

/// The model that a `config.json` describes, as Transformers 5 builds it. `source` is the path or preset
/// name, for messages. Errors name FILE:LINE and the key: an unknown `model_type`, missing, impossible or
/// contradictory sizes. O(tensors).
Result<Architecture> make_architecture(const Document& config, std::string source,
                                       const ReadOptions& options = {});

/// The same from a `config.json` or from a model's directory that holds one.
Result<Architecture> read_architecture(const std::string& path, const ReadOptions& options = {});

}  // namespace headroom

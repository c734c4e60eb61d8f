#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/result.h"

namespace headroom {

/// What a model's directory says of its weights without reading them.
struct Checkpoint {
  struct Entry {
    std::string name;
    std::vector<std::int64_t> shape;
    Bytes bytes = 0;
  };
  std::string source;                ///< the index, or the only safetensors file
  Bytes total = 0;                   ///< bytes of all weights
  std::vector<Entry> entries;        ///< of the headers; empty when only an index is there
  std::vector<std::string> missing;  ///< files of the index that are not in the directory
};

/// Reads `model.safetensors.index.json` and the headers of the `*.safetensors` files beside it, as far as
/// they are there; nothing when the directory holds neither. Malformed files are errors naming them. Reads no
/// weights.
Result<std::optional<Checkpoint>> read_checkpoint(const std::string& directory);

/// Differences between the model as its config describes it and the checkpoint, as sentences; none when they
/// agree. Names differ between versions of Transformers and experts may be stored one by one, so elements are
/// compared layer by layer (and outside layers together), or bytes in all when there is only an index.
std::vector<std::string> compare_checkpoint(const Architecture& model, const Checkpoint& checkpoint);

}  // namespace headroom

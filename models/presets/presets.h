#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/embedded.h"
#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom {

/// Public models by hub name, so that a name works without network or weights.
///
/// The data are `models/presets/data/*.yaml`, one file a family, compiled into the binary. A preset holds the
/// keys of the model's public `config.json` that decide shapes, precision and context length; everything else
/// is left to the family's defaults. A value that is not certain excludes its model.
struct Preset {
  std::vector<std::string>
      names;           ///< `ORGANISATION/MODEL` of every model whose config.json says the same; at least one
  std::string source;  ///< where the values come from: `config.json of Qwen/Qwen2.5-7B`
  std::int64_t parameters = 0;  ///< elements as published, tied ones once, buffers not; 0: not known
  Document config;              ///< what `make_architecture` reads
};

/// All presets, file by file. Read once, at the first use (some milliseconds).
std::span<const Preset> presets();

/// The preset of a model; reads the files that mention it only. Letters compare without case. Accepted are
///   * the hub name, `Qwen/Qwen2.5-7B-Instruct`;
///   * the model's name alone, `qwen2.5-7b-instruct`;
///   * a local path that ends in either: `/data/models/Qwen2.5-7B-Instruct/`, `$HOME/models/Qwen/Qwen2.5-7B`.
/// Another organisation's copy of a model (`unsloth/Qwen2.5-7B`) is taken for that model, and so is what a name says
/// was trained or stored from it (`qwen2.5-7b-sft`, `DeepSeek-V3-config-verl`). Errors: an unknown
/// name (up to three nearest ones are suggested), a name without organisation that stands for presets that
/// differ (all are listed).
Result<const Preset*> look_up_preset(std::string_view name);

/// The `config.json` facts of `look_up_preset(name)`, for `make_architecture`.
Result<Document> find_preset(std::string_view name);

/// Reads preset files; what is embedded, or a test's own. Errors name FILE:LINE and the key.
Result<std::vector<Preset>> read_presets(std::span<const EmbeddedFile> files);

}  // namespace headroom

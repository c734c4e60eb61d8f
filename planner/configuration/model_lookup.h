#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "models/architecture/architecture.h"
#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom {

/// What a run asks of a model besides its name.
struct ModelRequest {
  std::string name;    ///< as the user wrote it: directory, config.json, or the name of a public model
  std::string config;  ///< another config.json to read instead (verl's hf_config_path); may be empty
  std::string base;    ///< folder that relative paths start from after the working directory
  HeadKind head = HeadKind::language_model;
  Document values = {};  ///< a config.json's own, instead of any file or name; null: none
  Document overrides;  ///< a map laid over the config's top-level keys; null: none
};

/// The architecture of a model by directory, by `config.json`, or by the name of a preset (offline; a path
/// that ends in a preset's name counts, so that a configuration written for another machine still reads; so does a
/// name that mentions one, `taken_for`).
/// `~` is the home directory. A scalar head has one row. Equal requests share one object. Errors: neither a
/// readable config nor a known name (says what was tried, and the nearest names), or what the model library
/// finds wrong in the config. Not thread-safe.
Result<std::shared_ptr<const Architecture>> find_model(const ModelRequest& request);

/// The known model whose shape stands in for a model that nobody knows, because its name mentions it
/// (models/presets/mention.h): worth an assumption of the prediction. Empty: the model itself is known, or unknown.
std::string taken_for(const ModelRequest& request);

}  // namespace headroom

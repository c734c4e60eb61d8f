#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom {

/// Where an interpolation finds what it names.
struct InterpolationScope {
  /// The resolved value of an absolute dotted key; nothing when there is none.
  std::function<Result<std::optional<Document>>(const std::string& key)> key;
  /// A variable of the launch's environment.
  std::function<std::optional<std::string>(const std::string& name)> environment;
  /// A framework's own resolvers (`${mul:2,3}`): the value; nothing for a name that it does not have.
  std::function<Result<std::optional<Document>>(std::string_view name, const std::vector<Document>& arguments)>
      resolver;
};

/// Index behind the `}` that closes the `${` at `start`, nested ones and quotes skipped; npos when unclosed.
std::size_t interpolation_end(std::string_view text, std::size_t start);

/// Whether `text` holds an unescaped `${`.
bool has_interpolation(std::string_view text);

/// When `text` is one reference to a key and nothing else (`${a.b}`, `${.x}`, `${oc.select:a.b,...}`): that
/// key, absolute. `parent` is the dotted key of the map that holds the text.
std::optional<std::string> referenced_key(std::string_view text, std::string_view parent);

/// `text` with OmegaConf's interpolations replaced: `${a.b}`, relative `${.x}` and `${..x}`,
/// `${oc.select:KEY,DEFAULT}`, `${oc.env:NAME,DEFAULT}`, `${oc.decode:TEXT}`, nested ones. One interpolation
/// alone keeps its value's type; inside text it becomes text. Defaults are only evaluated when needed.
/// Errors: a key or variable that does not exist and has no default, an unknown resolver (Python code that a
/// file can't contain), broken syntax.
Result<Document> interpolate(std::string_view text, std::string_view parent, const InterpolationScope& scope);

}  // namespace headroom

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/base/result.h"
#include "models/document/document.h"
#include "planner/frameworks/read_job.h"

namespace headroom {

/// `text` (YAML, parsed as `document`) with `settings` changed: values in the grammar of value_grammar.h,
/// keys dotted; a part of a key names an entry of a map, an index of a list, or the list's item of that
/// `name`.
///
/// Existing values are replaced where they stand and new keys put beside their neighbours, so that comments,
/// order and unknown keys stay. Where that is not possible the whole file is written anew (unknown keys stay,
/// comments do not). The result always parses to `document` with the settings set: it is parsed again and
/// compared before it is returned. Errors: a key that runs through a value that is no map or list.
Result<std::string> patch_yaml(std::string_view text, const Document& document,
                               std::span<const Setting> settings);

/// The node at a dotted key, through maps, list indices and items' names; null when there is none.
const Document* find_node(const Document& root, std::string_view key);

/// Sets a node, making maps on the way. Errors as patch_yaml.
Status set_node(Document& root, std::string_view key, Document value);

/// A value of the override grammar as it is best written in a file: words keep quotes only where they would
/// read as a number or a boolean.
Document as_written(const Document& value);

}  // namespace headroom

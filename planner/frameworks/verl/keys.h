#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/document/document.h"
#include "planner/frameworks/settings/table.h"
#include "planner/frameworks/verl/version.h"

namespace headroom::verl {

using settings::Effect;
using settings::Key;
using settings::Kind;

/// Every key that Headroom knows; several rows of one path when its default changed. Sorted by path, then by
/// release. A `map` row covers whatever stands below it.
std::span<const Key> keys();

/// The row of `path` in `release`, or the nearest one when that release has none; null for an unknown path.
/// The row of a map above `path` counts.
const Key* find_key(std::string_view path, const Version& release);

/// The tree of default values of `release`, references unresolved.
Document defaults(const Version& release);

}  // namespace headroom::verl

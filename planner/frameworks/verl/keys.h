#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/document/document.h"
#include "planner/frameworks/verl/version.h"

namespace headroom::verl {

enum class Effect {
  modelled,    ///< decides memory or time, and Headroom reads it
  unmodelled,  ///< decides memory, but no program models it yet: a warning when it is not at its default
  none,        ///< known to decide neither
};

enum class Type { boolean, integer, number, text, list, map };

/// One configuration key of verl.
struct Key {
  std::string path;  ///< dotted, from the root
  Type type = Type::text;
  std::string_view fallback;  ///< verl's default in the value grammar; references to other keys included
  Effect effect = Effect::none;
  Version since = kOldest, until = kNever;  ///< releases that have the key with this default
};

/// Every key that Headroom knows; several rows of one path when its default changed. Sorted by path, then by
/// release. A `map` row covers whatever stands below it.
std::span<const Key> keys();

/// The row of `path` in `release`, or the nearest one when that release has none; null for an unknown path.
/// The row of a map above `path` counts.
const Key* find_key(std::string_view path, const Version& release);

/// The tree of default values of `release`, references unresolved.
Document defaults(const Version& release);

/// Paths of the keys with an effect, for suggestions.
std::span<const std::string_view> keys_with_effect();

}  // namespace headroom::verl

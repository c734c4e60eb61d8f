#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "models/document/document.h"

namespace headroom {

/// A library's release number: `0.7.1`, `v0.10.0.dev0`, `0.4.10.post2`. What follows the numbers is dropped.
struct Version {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const Version&) const = default;
};

std::optional<Version> parse_version(std::string_view text);
std::string to_string(const Version& version);

/// A recorded version (`2.11.0+cu130`) without its build tag, as a text at the same line.
Document without_build_tag(const Document& version);

}  // namespace headroom

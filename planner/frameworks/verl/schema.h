#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "planner/frameworks/verl/version.h"

namespace headroom::verl {

/// The releases whose configuration files were read, oldest first.
std::span<const Version> schema_releases();

/// Releases as bits, by their place in `schema_releases()`.
using Releases = std::uint32_t;
Releases all_releases();

/// Those whose trainer configuration has `key`; Hydra takes it there without `+`. None for a key that verl
/// never had. Keys below profilers and the like count as their section does.
Releases releases_with(std::string_view key);

/// Of those, the releases in which it is null unless it is set: there Hydra takes `+key` as well as `key`.
Releases releases_open_to(std::string_view key);

/// "before 0.6.0", "of 0.9.0 and later", "of 0.5.0 to 0.7.1".
std::string describe(Releases releases);

/// The bit of the newest release that is not newer than `version`; the oldest one's when all are.
Releases release_bit(const Version& version);

}  // namespace headroom::verl

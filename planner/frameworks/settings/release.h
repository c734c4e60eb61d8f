#pragma once

#include "planner/configuration/version.h"

namespace headroom::settings {

/// A framework's release, as its files and rows of keys state it.
using Release = headroom::Version;

inline constexpr Release kFirst{0, 0, 0}, kNever{999, 0, 0};

}  // namespace headroom::settings

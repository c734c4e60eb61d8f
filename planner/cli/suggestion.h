#pragma once

#include <string>

#include "planner/cli/prediction.h"

namespace headroom::cli {

/// For a run that does not fit: a line with the cheapest single change under which the closed form fits, and what
/// shows more. Empty for a run that fits, and where nothing can be varied or no single change helps (then the
/// line says what searches). A run that is open because of what is not modelled has none; one whose every change costs a
/// program of its own is tried towards the frugal ends of its knobs alone.
std::string suggestion(const Run& run, const Report& report);

}  // namespace headroom::cli

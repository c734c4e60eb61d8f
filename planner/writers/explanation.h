#pragma once

#include <span>
#include <string>

#include "planner/search/changes.h"
#include "simulator/report/report.h"

namespace headroom::writers {

/// The components that make up at least 3 % of the highest peak, largest first.
std::vector<Component> main_components(const PhaseReport& phase);

/// `headroom.report/1` with `reasons` (what makes up the highest peak, and what lessens it) and
/// `single_changes` (each alone, as `changes` ranks them).
std::string explanation_json(const Report& report, std::span<const search::Change> changes);

}  // namespace headroom::writers

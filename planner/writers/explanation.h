#pragma once

#include <string>
#include <vector>

#include "planner/search/explanation.h"
#include "simulator/report/report.h"

namespace headroom::writers {

/// The components that make up at least 3 % of the highest peak, largest first.
std::vector<Component> main_components(const PhaseReport& phase);

/// `headroom.report/1` with `reasons` (what makes up the highest peak, and what lessens it), `single_changes` and
/// `pairs` (cheapest first), `techniques`, and where nothing fits `would_fit`; `missing_at_least` of a run that stops.
std::string explanation_json(const Report& report, const search::Explanation& explanation);

/// For people: what is missing at least, changes, techniques, and what would make it fit.
std::string explanation_text(const search::Explanation& explanation);

}  // namespace headroom::writers

#pragma once

#include <string>

#include "planner/search/solve.h"
#include "simulator/report/report.h"

namespace headroom::writers {

/// The report of the run with the value found, and `solved`: the knob, the value, and both sides: what fits and the
/// next value, which does not.
std::string solution_json(const Report& report, const std::string& knob, const search::Solution& solution);

}  // namespace headroom::writers

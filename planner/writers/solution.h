#pragma once

#include <optional>
#include <string>

#include "simulator/report/report.h"

namespace headroom::writers {

/// The report of the run with the value found, and `solved`: the knob, the value, the next one that does not fit.
std::string solution_json(const Report& report, const std::string& knob, const std::string& value,
                          const std::optional<std::string>& next);

}  // namespace headroom::writers

#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "planner/search/explanation.h"
#include "simulator/report/report.h"

namespace headroom::writers {

/// The report as a JSON value, for writers that add to it. Included by .cc files only.
nlohmann::ordered_json report_json(const Report& report);
nlohmann::ordered_json components_json(const Breakdown& breakdown);

/// The value as text: two blanks an indentation, bytes that are no UTF-8 replaced, a newline at the end.
std::string dump(const nlohmann::ordered_json& value);

/// `would_fit` of a report for which nothing else fits.
nlohmann::ordered_json would_fit_json(std::span<const search::Would> would);

}  // namespace headroom::writers

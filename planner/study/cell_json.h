#pragma once

#include <nlohmann/json.hpp>

#include "planner/study/study.h"

namespace headroom::study {

/// A cell as JSON, all but what is told from other cells; and back. Included by .cc files only.
nlohmann::ordered_json cell_json(const Cell& cell);
/// Nothing when the value is no whole cell.
std::optional<Cell> cell_from_json(const nlohmann::ordered_json& value);

}  // namespace headroom::study

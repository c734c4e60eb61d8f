#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/search/explanation.h"
#include "simulator/report/report.h"

namespace headroom::writers {

/// The components that make up at least 3 % of the highest peak, largest first.
std::vector<Component> main_components(const PhaseReport& phase);

/// How one figure, or a part of a role, is known.
struct Known {
  std::string of;  ///< an engine's or a role's name; "process": what every process holds beside its allocator
  std::string component;
  std::optional<Bytes> bytes;
  std::string known;  ///< "recorded", "read in source" or "inferred"
  std::string because;
};

/// For people: a table for each titled part. Its rows are about one engine, role or process.
std::string known_text(std::string_view title, std::span<const Known> rows);

/// `headroom.report/1` with `reasons` (what makes up the highest peak, and what lessens it), `single_changes` and
/// `pairs` (cheapest first), `techniques`, and where nothing fits `would_fit`; `missing_at_least` of a run that stops;
/// `evidence`, how each part is known.
std::string explanation_json(const Report& report, const search::Explanation& explanation,
                             std::span<const Known> evidence);

/// For people: what is missing at least, changes, techniques, and what would make it fit.
std::string explanation_text(const search::Explanation& explanation);

}  // namespace headroom::writers

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "planner/compare/comparison.h"
#include "planner/compare/measured.h"
#include "simulator/report/report.h"

namespace headroom::compare {

/// What a file holds: its phases, and whether it is a recording, which states what it measured.
struct Held {
  Measured run;
  bool recording = false;
};

/// The phases of what `path` holds: a recording (JSON with `phases`), a memory snapshot or an allocation stream with its
/// annotated phases (of the device with the longest history), or a prediction that --json wrote (of its first GPU's
/// first process). Nothing: none of these; it may be a configuration, or a training's log.
///
/// Errors: a file of one of these kinds that is broken, or has no phases.
Result<std::optional<Held>> side_in(const std::string& path);

/// The phases of a prediction: its first GPU's first process.
Measured side_of(const Report& report);

/// Each phase of `second` beside the same one of `first`: of the same name, and the same time that it comes (snapshots
/// know no steps: theirs are counted by the name). Those that only `first` has are left out.
std::vector<Row> compare(const Measured& first, const Measured& second);

}  // namespace headroom::compare

#pragma once

#include "planner/cli/prediction.h"

namespace headroom::cli {

/// The report that says whether `run` fits: by `quick`, the closed form, where that shows it to be far from its limit,
/// else by `exact`, the simulator, so that `estimate`, and `check` of many, end with the verdict of `check` of one.
///
/// The closed form knows no fragmentation, which has been up to 28 % of a card, and as much as the trainer's process has
/// reserved without it. Far is what is more below its budget than 28 % of the card, or than 1 GiB and 1.25 of what is
/// reserved, and what is over by more than 5 % of the card.
Result<Report> predict_settled(const Run& run, const Executor& quick, const Executor& exact);

/// Whether the trainer itself generates responses so long that looking at the closed form first pays for a single run.
bool generates_long(const Job& job);

}  // namespace headroom::cli

#pragma once

#include <span>
#include <vector>

#include "planner/cli/prediction.h"
#include "planner/search/explanation.h"

namespace headroom::cli {

/// What would make a run fit that no knob makes fit, each alone, all else as it is: how many GPUs of its kind, which
/// larger card with as many of them (where the budget is the card's), adapters instead of whole weights. With
/// `frugal`, all that saves memory, also how many GPUs would do beside it, where those are fewer.
std::vector<search::Would> would_fit(const Run& run, const Common& common, const Executor& quick,
                                     const Executor& exact, std::span<const Choice> frugal = {});

/// What can be done about a run beside its knobs, by `quick` against `now`: adapters, shorter sequences, a smaller
/// batch. What is trained changes with each.
std::vector<search::Technique> numeric_techniques(const Run& run, const search::Outcome& now, const Executor& quick);

}  // namespace headroom::cli

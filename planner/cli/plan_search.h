#pragma once

#include <vector>

#include "planner/cli/arguments.h"
#include "planner/cli/prediction.h"
#include "planner/cli/streams.h"
#include "planner/search/plan.h"
#include "planner/writers/plan.h"

namespace headroom::cli {

/// A plan and the run that it is of.
struct Searched {
  Run run;
  search::Plan plan;
  Report input;  ///< the run as given, when nothing fits
  std::vector<writers::CardPlan> cards;  ///< that were compared; empty: one was asked for
};

/// Whether the fewest GPUs are asked for: `--min-gpus`, `--objective gpus`.
bool wants_fewest_gpus(const Arguments& arguments);

/// What `headroom plan` finds: on the card and cluster of the run, on the fewest GPUs, or on each of several cards
/// (`--gpu A,B`). Errors: of the run, of flags' values, of what can't be planned.
Result<Searched> search_plan(const Arguments& arguments, Streams& streams, const search::Executors& executors);

}  // namespace headroom::cli

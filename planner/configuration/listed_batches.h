#pragma once

#include <string>
#include <vector>

#include "models/base/result.h"
#include "models/document/document.h"
#include "simulator/job/job.h"

namespace headroom {

/// Whether `document` lists the micro-batches of a run: a map with `phases`, some of which have
/// `micro_batches`.
bool lists_batches(const Document& document);

/// The micro-batches of a run, as a recording has them: `phases`, each with `step`, `phase` (its name in the
/// report) and `micro_batches`, the token lengths of every sequence in every micro-batch of one rank, in
/// order. Phases without micro-batches, and those that run no role's batches in `job`, are left out. Errors
/// name FILE:LINE and key: a step, a name or a length that is none.
Result<std::vector<ListedBatches>> listed_batches(const Document& document, const Job& job,
                                                  const std::string& file);

}  // namespace headroom

#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "models/document/document.h"
#include "simulator/job/job.h"

namespace headroom {

/// Whether `document` lists the micro-batches of a run: a map with `sequences`, or with `phases`, some of which
/// have `micro_batches`.
bool lists_batches(const Document& document);

/// The micro-batches of a run, as a recording has them: `phases`, each with `step`, `phase` (its name in the
/// report) and `micro_batches`, the token lengths of every sequence in every micro-batch of one rank, in
/// order. Or `sequences`, a list a step of the token lengths of one rank's sequences in their order, which are
/// cut as each role's settings say: so many after the other, or balanced under its token budget. Phases without micro-batches, and those that run no role's batches in `job`, are left out. Errors
/// name FILE:LINE and key: a step, a name or a length that is none.
Result<std::vector<ListedBatches>> listed_batches(const Document& document, const Job& job,
                                                  const std::string& file);

/// One rank's sequences of a step, by their token lengths, in the micro-batches of `action`'s pass: so many after the
/// other, or balanced under its token budget; a training's mini-batch by mini-batch.
ListedBatches cut_batches(const Job& job, const Role& role, const Action& action, int step,
                          std::span<const std::int64_t> lengths);

}  // namespace headroom

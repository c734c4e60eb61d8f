#pragma once

#include "simulator/job/job.h"

namespace headroom {

/// Whether every role's actions are its loop's: calls by name only of roles whose trainer has a loop of its
/// own, which has them and finds what earlier ones make; of the standard verbs only those that it does.
/// Follows the start and the first steps. Errors: the role's trainer, or the phase and the action.
/// O(actions).
Status check_calls(const Job& job);

}  // namespace headroom

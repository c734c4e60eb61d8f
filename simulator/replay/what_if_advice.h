#pragma once

#include "simulator/replay/what_if.h"

namespace headroom::replay {

/// Fills in the advice. With a limit: a setting that fits, first one without retries, then the one with the
/// lowest reserved peak. Without: the lowest reserved peak. A change has to be worth it: it makes the run
/// fit, ends its retries, or saves at least 2 % and 64 MiB; of rows within 2 % of the best the one with
/// fewest driver calls wins, and a row without emptying the cache before one with it.
void advise(WhatIf& table);

}  // namespace headroom::replay

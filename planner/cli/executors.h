#pragma once

#include "simulator/report/executor.h"

namespace headroom::cli {

/// Folded into terms: for search and quick answers.
const Executor& closed_form_executor();
/// Every allocation and free: what decides.
const Executor& simulating_executor();

}  // namespace headroom::cli

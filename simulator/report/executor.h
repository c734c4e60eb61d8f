#pragma once

#include <functional>

#include "models/base/result.h"
#include "simulator/report/report.h"

namespace headroom {

struct Job;
struct Hardware;

/// Runs a job on a kind of GPU and reports what it took: everything but budgets, margins and the verdict,
/// which `judge` adds. Errors: a job that this executor cannot run, saying what it lacks. Callable from
/// several threads at once.
using Executor = std::function<Result<Report>(const Job&, const Hardware&)>;

}  // namespace headroom

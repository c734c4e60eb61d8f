#pragma once

#include "planner/search/plan.h"
#include "simulator/report/executor.h"

namespace headroom::cli {

/// Folded into terms: for search and quick answers.
const Executor& closed_form_executor();
/// Every allocation and free: what decides.
const Executor& simulating_executor();

/// The closed form for many variants of a job: trainers recall what their actions cost
/// (closed_form::CostBook). Each call gives an executor with books of its own; it may be called from several
/// threads.
Executor searching_executor();

/// The same with what a plan needs beside it, from the same books.
search::Executors planning_executors();

/// `executor` on cards whose rates nobody knows: the same bytes, no seconds, in less time.
Executor without_seconds(Executor executor);

}  // namespace headroom::cli

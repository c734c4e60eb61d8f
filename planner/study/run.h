#pragma once

#include <functional>
#include <span>

#include "planner/study/finished.h"
#include "planner/study/study.h"
#include "simulator/hardware/hardware.h"

namespace headroom::study {

/// A place's run, understood: what `headroom simulate` would run with the same changes.
struct Prepared {
  Job job;
  Hardware hardware;
};

/// Reads the job with the strategy's overrides, and makes its changes and the emptying. Errors name the
/// configuration's FILE:LINE, or the study's where a strategy does not suit the job. `read` with nothing: the
/// strategy says nothing for the job's framework.
Result<std::optional<Prepared>> prepare(const Study& study, const Place& place);

/// Simulates it. Never an error: a cell that fails says why.
Cell run_cell(const Study& study, const Place& place);

/// How far a study is.
struct Progress {
  std::size_t done = 0, all = 0, failed = 0, known = 0;  ///< `known`: of the done ones, from an earlier run
};

/// Runs every place on up to `threads` threads (0: one a processor). With `finished`, cells that it knows are not
/// run again, and each that is done is added to it at once. `tell`, where given, is called after each cell, by one
/// thread at a time. Errors: what is finished could not be written.
Result<Results> run_study(const Study& study, Finished* finished, unsigned threads = 0,
                          const std::function<void(const Progress&)>& tell = {});

}  // namespace headroom::study

#include "planner/cli/expected_lengths.h"

#include "planner/cli/lengths.h"

namespace headroom::cli {

Executor at_lengths(const Executor& executor, const Lengths& lengths) {
  if (lengths.source.empty() || !executor) return executor;
  return [executor, lengths](const Job& job, const Hardware& hardware) -> Result<Report> {
    if (lengths.listed.empty()) return executor(at_expected_lengths(job, lengths), hardware);
    Job run = job;
    run.lengths = lengths;
    return executor(run, hardware);
  };
}

}  // namespace headroom::cli

#pragma once

#include <string>

#include "models/base/result.h"
#include "simulator/job/job.h"

namespace headroom::cli {

/// `--lengths`: token lengths below the cap. Either `KEY=N,…` or a YAML or JSON file of the same keys:
///   prompt, response  mean tokens of a prompt, of a response
///   mean              mean tokens of both together, shared out as the caps are
///   max               the longest sequence met
///   source            (files) where the figures come from
/// Errors: unknown keys, a mean above its cap, nothing that gives a mean.
Result<Lengths> read_lengths(const std::string& text, const Batch& caps);

/// The job with every sequence at its expected length instead of the cap.
Job at_expected_lengths(const Job& job, const Lengths& lengths);

}  // namespace headroom::cli

#pragma once

#include "planner/configuration/layers.h"
#include "planner/frameworks/read_job.h"

namespace headroom::verl {

/// A run of verl's trainer that was recorded phase by phase: `overrides` is its whole list of overrides,
/// `model_config` the values of its model's config.json, `versions`, `verl_version` and `device` say on what it
/// ran, `phases` what its phases took and which micro-batches they ran.

bool is_recording(const Document& document);

/// Lays the run's settings over what is there. Errors: an override that is none.
Status lay_recording(const JobInput::File& file, Layers& layers);

/// Gives the job the micro-batches that the run had, and the rank that was recorded.
Status take_run(const JobInput& input, Job& job);

}  // namespace headroom::verl

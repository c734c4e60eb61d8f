#pragma once

#include "validator/probe.h"

namespace headroom::gpu {

/// `job` with every model cut to `layers` layers (models with fewer keep theirs).
Job with_layers(const Job& job, std::int64_t layers);

/// The job with 2 and with 4 layers a model, every figure drawn along a line to the whole number of layers.
/// Errors as `probe`; also where the models of a job differ in their layers so that no one line fits.
Result<Probe> quick_probe(const Job& job, const ProbeOptions& options);

/// `few` and `more` on the line through their layers, at `layers`. Phases that either lacks are left out.
Probe extrapolate(const Probe& few, const Probe& more, double few_layers, double more_layers, double layers);

}  // namespace headroom::gpu

#pragma once

#include <functional>

#include "validator/probe.h"

namespace headroom::gpu {

/// `job` with every model cut to `layers` layers (models with fewer keep theirs).
Job with_layers(const Job& job, std::int64_t layers);

/// What predicts a job as it is probed.
using Predict = std::function<Result<Report>(const Job&)>;

/// The job with 4 and with 8 layers a model, run and predicted. Memory does not grow along a line with
/// layers: segments are taken in large pieces, and what one phase leaves behind another uses, so the
/// prediction of all layers is what scales. What both depths took beyond their predictions is added to it:
/// in proportion to layers where it grew so from 4 to 8 (within a quarter: something that the prediction
/// lacks in each layer), else the smaller of the two (libraries, contexts, neighbours, blocks that wait for
/// the card). What one depth alone shows is an accident of its segments and is not added; a note says how far
/// each depth was from its own prediction. Errors as `probe`; also where the models of a job
/// differ in their layers.
Result<Probe> quick_probe(const Job& job, const ProbeOptions& options, const Predict& predict);

/// A job with fewer layers.
struct Measured {
  Report predicted;
  Probe probe;
};

/// What `few` and `more` found at their layers, for all `layers`, for which `predicted` is the prediction.
/// Phases that one of them lacks are left out, so that comparing finds them predicted but not measured; those
/// without a prediction of all layers stay, so that it finds that too. Seconds and figures without a
/// prediction are drawn along the line through both.
Probe extrapolate(const Measured& few, const Measured& more, const Report& predicted, double few_layers,
                  double more_layers, double layers);

}  // namespace headroom::gpu

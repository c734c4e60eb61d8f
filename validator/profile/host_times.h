#pragma once

#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/hardware/hardware.h"
#include "validator/measurements.h"

namespace headroom::gpu {

/// What Python and PyTorch's dispatch take on this machine, piece by piece, into `out.host` and `out.host_seconds`:
/// `python` (a program, as the training starts it) runs validator/pytorch/host_times.py, which is part of this binary.
/// Errors: it can't be started, has no PyTorch, sees no GPU; with what it said.
Status measure_host_times(const std::string& python, Measurements& out);

/// What such a run printed. Errors: not that JSON; a piece is missing or not positive.
Status read_host_times(const std::string& text, Measurements& out);

/// The profile's host times for the measured machine: each figure as many times the base's as the pieces of its kind took
/// here of what they took on the base's machine; an optimizer's parameter as measured. Figures that no piece stands
/// for (calls of the GPU's driver) are taken over, with a note. Nothing where no pieces were measured.
void fit_host_times(const Measurements& measured, Hardware& out, std::vector<std::string>& notes);

}  // namespace headroom::gpu

#pragma once

#include "models/base/result.h"
#include "validator/launch/ranks.h"
#include "validator/measurements.h"

/// The GPU part of Headroom, as the floors above see it: no CUDA header. In a build without CUDA every
/// function returns one error that says so.
namespace headroom::gpu {

/// Success on a machine with a usable GPU; otherwise what is missing, in one sentence.
Status available();

/// How many cards this process sees; errors as `available`.
Result<int> visible_cards();

struct CalibrateOptions {
  bool rates = true;     ///< times of matrix products, attention, copies, transfers and collectives
  bool kernels = false;  ///< also each of Headroom's own kernels
};

/// Measures this process's card, and with several ranks the links and communicators among them; takes well
/// under a minute. Rank 0 gets everything, the others what they saw themselves. Memory is measured from the
/// process's first contact with the driver on, so nothing may have used the GPU before in this process.
Result<Measurements> calibrate(const CalibrateOptions& options, const launch::Place& place);

}  // namespace headroom::gpu

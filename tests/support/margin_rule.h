#pragma once

#include <string>

#include "models/base/result.h"

namespace headroom::test {

/// configs/margins.yaml out of docs/ACCURACY.md.
///
/// Of the phases of all recorded runs but those that build models (no run peaks there), reserved peaks that
/// were predicted too low: twice the worst, relative to what was measured, rounded up to a half per cent of
/// the card; and twice the worst in bytes, rounded up to 256 MiB. Errors that are too high cost room, not
/// runs, and do not count. Neither is ever below a floor of 2.5 % and 256 MiB: recordings know one driver,
/// few releases of NCCL and kernel libraries and the lengths that were met, and their errors have become
/// smaller than what those change. No recording has a rollout engine beside the trainer; phases with one keep
/// 1 % and 512 MiB more.
///
/// Errors: no table of phases is found, or the margins pass their bounds (simulator/device/margin.h).
Result<std::string> margins_yaml(const std::string& accuracy);

}  // namespace headroom::test

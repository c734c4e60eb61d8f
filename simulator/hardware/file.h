#pragma once

#include <functional>
#include <string>

#include "models/base/result.h"
#include "models/document/document.h"
#include "simulator/hardware/hardware.h"

namespace headroom {

/// The YAML form of a profile. Sections of figures, each with a `source`:
///
///     name: NVIDIA H100 80GB HBM3        # as the driver reports it
///     short_names: [h100, h100-80gb]
///     like: h200                         # optional: what is not stated here is taken from that profile
///     versions: {driver: 580.159.04}     # optional
///     memory: {total: 85017493504B, page: 2MiB, source: …}
///     rates: {multiprocessors: 132, bf16: 989.4e12, …, memory: 3.35e12, source: …}
///     links: {pcie: 64e9, nvlink: 450e9, network: 50e9, source: …}
///     process: {context: 527MiB, cublas_handle: 68MiB, cublas_workspace: 32MiB, source: …}
///     nccl: {…}  efficiency: {matrix: [[1e-5, 0.4], [1e-3, 0.8]], …}  latency: {…}  host: {memory: 2TiB,
///     source: …}
///
/// Sizes carry a unit; rates are FLOP/s and bytes/s, latencies seconds. Unknown keys, figures without a
/// source, missing and impossible values are errors with FILE:LINE and key.

/// Finds the document of the profile that `like` names.
using FindProfile = std::function<Result<Document>(const std::string& name)>;

Result<Hardware> read_hardware(const Document& document, const std::string& file,
                               const FindProfile& find = {});

/// The whole profile, without `like`. Reading it back gives the same profile.
Document write_hardware(const Hardware& hardware);

}  // namespace headroom

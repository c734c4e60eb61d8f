#pragma once

#include <cstdint>

#include "models/base/bytes.h"
#include "models/base/dtype.h"
#include "simulator/hardware/hardware.h"

namespace headroom {

/// Seconds of single operations on a profile: pure functions, monotonic in size.
///
/// The model is a roofline with measured efficiency: beside a kernel's start and end an operation takes the
/// longer of its arithmetic at the matrix rate and its traffic at the memory rate, both cut by the profile's
/// efficiency curves. Dispatch is the host's and counts there (host_seconds.h, launch_queue.h).

/// [m, k] × [k, n] with operands of `dtype` and a result of the same type (2 bytes for 1-byte operands).
/// `tf32`: fp32 operands on the TF32 units.
double matrix_product_seconds(const Hardware& hardware, std::int64_t m, std::int64_t n, std::int64_t k,
                              DType dtype, bool tf32 = false);

/// Several equal products in one operation (attention, experts): `count` times the work, one dispatch.
double batched_product_seconds(const Hardware& hardware, std::int64_t count, std::int64_t m, std::int64_t n,
                               std::int64_t k, DType dtype, bool tf32 = false);

/// An operation bound by memory that reads and writes `moved` bytes together.
double memory_seconds(const Hardware& hardware, Bytes moved);

/// A copy between pinned host memory and the GPU, in either direction.
double host_transfer_seconds(const Hardware& hardware, Bytes bytes);

/// Ranks of a communicator and the nodes they lie on, in equal parts; 1 ≤ nodes ≤ ranks.
struct RankGroup {
  std::int64_t ranks = 1, nodes = 1;
};

enum class Collective { all_gather, reduce_scatter, all_reduce, all_to_all, broadcast, send };

/// A collective over `group`. `bytes` is the whole message: what every rank ends with (all_gather,
/// broadcast), starts with (reduce_scatter, all_to_all) or both (all_reduce); what is sent (send).
///
/// A ring passes (R − 1)/R of the message over each of its edges, twice that for all_reduce, in R − 1 steps
/// (2 (R − 1)); broadcast passes all of it. An edge runs at NVLink's rate (PCIe's without NVLink); a ring
/// over several nodes also at the rate of a node's adapters together, those of its ranks there. all_to_all
/// sends each other rank 1/R directly: the part for other nodes over the rank's own adapter. One rank:
/// nothing is sent. After: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations" (2009).
double collective_seconds(const Hardware& hardware, Collective collective, Bytes bytes, RankGroup group);

}  // namespace headroom

#pragma once

#include "models/base/result.h"
#include "validator/calibrate/arena.h"
#include "validator/cuda/nccl.h"
#include "validator/measurements.h"

/// Times over sizes, appended to `out`. Every measurement runs on random numbers, is repeated and rotates
/// among buffers.
namespace headroom::gpu {

Status measure_matrix_rates(const Arena& arena, Measurements& out);
Status measure_attention_rates(const Arena& arena, Measurements& out);
Status measure_copy_rates(const Arena& arena, Measurements& out);
/// Pinned and pageable, both directions.
Status measure_host_rates(const Arena& arena, Measurements& out);
/// Seconds of launching an empty piece of work.
Status measure_latency(Measurements& out);
Status measure_collective_rates(Communicator& group, const Arena& arena, Measurements& out);
/// Every kernel of Headroom's own at a large size, with the bytes that it cannot avoid.
Status measure_kernel_rates(const Arena& arena, Measurements& out);

}  // namespace headroom::gpu

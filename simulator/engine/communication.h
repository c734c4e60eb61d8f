#pragma once

#include "simulator/engine/account.h"
#include "simulator/engine/sizes.h"

namespace headroom::engine {

/// What an engine's groups hold outside the allocator. Groups of one rank have no communicator.

/// Before its first memory snapshot: one communicator each of the tensor group, of the pipeline, and of the
/// experts (all ranks that a mixture's layers span, whether experts are dealt out or cut), after the warm-up
/// that loads the first kernels; with tensor parallelism also the buffers of the library's own all-reduce,
/// and those in memory that GPUs share.
///
/// Start-up logs of vLLM 0.19 on H100 print 1.43 GiB in use for two stages, 1.53 and 1.55 for two and four
/// tensor ranks, 2.01 and 2.07 with experts; the parts below give 1.43, 1.51 and 1.99.
Bytes communicators_at_start(const Engine& engine, const ModelSizes& sizes, const Host& host);

/// While it profiles: cuBLAS's handle; on one GPU the kernels that are loaded only now; with tensor
/// parallelism PyTorch's own communicator of the group, and the workspaces of fused all-reduce.
Bytes growth_while_profiling(const Engine& engine, const Host& host);

/// Workspaces of FlashInfer's fused all-reduce (three buffers shared by the tensor group, each rounded to the
/// fabric's multicast granularity): from Hopper on, for 2, 4 or 8 ranks under a switch with multicast; in
/// releases that leave it out beside data parallelism or a pipeline, not there.
Bytes allreduce_workspaces(const Engine& engine, std::int64_t hidden, const Host& host);

}  // namespace headroom::engine

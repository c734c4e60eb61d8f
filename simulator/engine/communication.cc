#include "simulator/engine/communication.h"

#include <algorithm>

#include "simulator/engine/coefficients.h"
#include "simulator/hardware/communicator.h"

namespace headroom::engine {
namespace {

constexpr std::int64_t kHopper = 90;

/// Most bytes that one fused all-reduce handles, by ranks (Hopper): longer ones go to NCCL.
Bytes fused_limit(std::int64_t ranks) {
  return ranks == 2 ? 64 * kMiB : ranks == 4 ? 2 * kMiB : kMiB / 2;
}

Bytes rounded(Bytes bytes, Bytes granularity) {
  return ceil_div(bytes, granularity) * granularity;
}

/// The buffer of symmetric memory, by ranks (Hopper and newer).
Bytes symmetric_buffer(std::int64_t ranks, const Host& host) {
  return host.capability < kHopper ? 0 : (ranks == 4 ? 32 : 64) * kMiB;
}

}  // namespace

Bytes communicators_at_start(const Engine& engine, const ModelSizes& sizes, const Host& host) {
  const bool mixture = sizes.experts_per_token > 0;
  const std::int64_t experts = mixture ? engine.tensor * engine.data : 1;
  Bytes bytes = 0;
  std::int64_t most = 1;
  for (const std::int64_t ranks : {engine.tensor, engine.pipeline, experts}) {
    if (ranks > 1) bytes += communicator_bytes(host.nccl, {ranks});
    most = std::max(most, ranks);
  }
  if (most == 1) return 0;
  if (!host.shares_process) bytes += first_communicator_bytes(host.nccl, most) + host.first_kernels;
  if (engine.tensor > 1) bytes += kOwnAllReduce + symmetric_buffer(engine.tensor, host);
  return bytes;
}

Bytes allreduce_workspaces(const Engine& engine, std::int64_t hidden, const Host& host) {
  const std::int64_t ranks = engine.tensor;
  const bool groups = engine.data > 1 || engine.pipeline > 1;
  if (!engine.allreduce_workspaces || host.multicast == 0 || host.capability < kHopper) return 0;
  if ((ranks != 2 && ranks != 4 && ranks != 8) || (groups && !engine.allreduce_beside_groups)) return 0;
  const std::int64_t width = bytes_of(DType::bf16, hidden);
  const std::int64_t tokens = std::min(engine.max_batched_tokens, fused_limit(ranks) / width);
  const Bytes buffer = ranks * tokens * width;
  return rounded(buffer, host.multicast) + rounded(ranks * kKiB, host.multicast) +
         rounded(3 * buffer, host.multicast);
}

Bytes growth_while_profiling(const Engine& engine, const Host& host) {
  Bytes bytes = host.cublas_handle;
  if (engine.tensor == 1 && engine.pipeline == 1) {
    bytes += kProfiledKernels * host.multiprocessors / kReferenceMultiprocessors;
    if (engine.keeps_profiled_graphs && engine.graphs) bytes += kProfiledGraphs;
  }
  if (engine.tensor > 1)
    bytes += communicator_bytes(host.nccl, {engine.tensor}) +
             allreduce_workspaces(engine, engine.model->decoder.hidden, host);
  return bytes;
}

}  // namespace headroom::engine

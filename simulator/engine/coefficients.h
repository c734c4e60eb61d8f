#pragma once

#include "models/base/bytes.h"

namespace headroom::engine {

/// What rollout engines take beyond what their settings and the model's shape decide. Each is an estimate
/// with its source; a hardware profile's measured values go before these (Host).

/// CUDA graphs (vLLM): a shared pool plus metadata a graph, which grows with the layers captured. Reports for
/// 30 to 40 layers give 10 to 28 MiB a size for two modes together.
inline constexpr Bytes kGraphPool = kGiB / 4;
inline constexpr Bytes kGraphAtReferenceDepth = 6 * kMiB;
inline constexpr std::int64_t kGraphReferenceDepth = 32;  ///< layers
/// The driver's part of that: so many kernels of a layer's decode step, each of this size with CUDA 13.0 on
/// H100 and H200 (`headroom calibrate`). A profile's own size takes its place.
inline constexpr std::int64_t kGraphKernelsALayer = 12;
inline constexpr Bytes kGraphKernel = 2016;

/// Growth outside PyTorch's allocator while vLLM profiles, from start-up logs on H100: 0.13 GiB on one GPU,
/// 0.55 GiB with tensor parallelism (its communicators' buffers).
inline constexpr Bytes kProfiledGrowthAlone = kGiB * 13 / 100;
inline constexpr Bytes kProfiledGrowthSharded = kGiB * 55 / 100;

/// Communicators of a tensor-parallel engine before its first memory snapshot, from start-up logs on H100:
/// 1.54 GiB with the context of 0.61 GiB.
inline constexpr Bytes kEngineCommunicators = kGiB * 93 / 100;

/// What PyTorch keeps reserved in an engine that sleeps: sampler and attention workspaces.
inline constexpr Bytes kAsleepLeftover = kGiB / 5;

/// SGLang's decode graphs with the buffers they keep, a captured batch size.
inline constexpr Bytes kSglangGraph = 24 * kMiB;

}  // namespace headroom::engine

#pragma once

#include <cstdint>

#include "models/base/bytes.h"

namespace headroom::engine {

/// What rollout engines take beyond what their settings and the model's shape decide. Each is an estimate
/// with its source; a hardware profile's measured values go before these (Host).

/// CUDA graphs (vLLM 0.19's start-up logs on H100, 8 to 80 layers, what was taken less the first capture, by
/// 102 graphs: within 1.2 MiB a graph): so much each, and a layer; layers of experts capture more kernels.
inline constexpr Bytes kGraph = 1229 * kKiB;
inline constexpr Bytes kGraphALayer = 174 * kKiB;
inline constexpr Bytes kGraphALayerOfExperts = 102 * kKiB;
/// The driver's part of a layer: so many kernels of a decode step, each of this size with CUDA 13.0 on H100
/// and H200 (`headroom calibrate`). A profile's own size takes its place.
inline constexpr std::int64_t kGraphKernelsALayer = 12;
inline constexpr Bytes kGraphKernel = 2016;
/// The first capture beyond the forward's own tensors: the same logs' first piecewise graphs, ± 25 MiB.
inline constexpr Bytes kFirstGraph = 80 * kMiB;

/// Growth outside PyTorch's allocator while vLLM profiles on one GPU, beside cuBLAS's handle: logs on H100
/// print 0.13 GiB, and 0.25 from the release on that captures a graph then. Kernels go by multiprocessors.
inline constexpr Bytes kProfiledKernels = 65 * kMiB;
inline constexpr std::int64_t kReferenceMultiprocessors = 132;
inline constexpr Bytes kProfiledGraphs = 123 * kMiB;

/// Buffers of vLLM's own all-reduce: two of 8 MiB shared by address, one of 8 MiB for ranks' data.
inline constexpr Bytes kOwnAllReduce = 24 * kMiB;

/// What PyTorch keeps reserved in an engine that sleeps, beside workspaces: segments that a live tensor
/// holds, input buffers. Logs of sleep leave 0.1 to 0.3 GiB that nothing else explains.
inline constexpr Bytes kAsleepLeftover = kGiB / 5;

/// SGLang's decode graphs of 32 layers: the first few with the pool and shared buffers, and later ones.
/// Logs: 0.11 GiB for 4 sizes, 0.06 for 3 of 24 layers, 0.6 for 52.
inline constexpr std::int64_t kSglangFirstGraphs = 4;
inline constexpr Bytes kSglangFirstGraph = 27 * kMiB, kSglangGraph = 10 * kMiB;
inline constexpr std::int64_t kGraphReferenceDepth = 32;  ///< layers

}  // namespace headroom::engine

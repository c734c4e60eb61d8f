#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/dtype.h"

namespace headroom {

/// The profile of a GPU as it stands in a node: what it holds, what a process on it takes before the first
/// tensor, and how fast it is. One YAML file each (configs/hardware, embedded in the binary; or a user's own,
/// or written by `headroom calibrate`); see file.h for the format. Every section of the file states its
/// source.

/// A fraction of a peak rate that is reached, as a function of the ideal seconds: size ÷ peak rate.
/// Points (seconds, fraction) in rising order; between them linear in log(seconds), outside them constant.
/// Ideal seconds rather than sizes make one curve serve cards of different speed.
class EfficiencyCurve {
 public:
  struct Point {
    double seconds, fraction;
    friend bool operator==(const Point&, const Point&) = default;
  };

  EfficiencyCurve() = default;  ///< always 1
  explicit EfficiencyCurve(std::vector<Point> points) : points_(std::move(points)) {}

  /// Seconds really taken by what would take `ideal` seconds at the peak rate. Rises with `ideal`: the reader
  /// refuses curves in which more work takes less time.
  double seconds(double ideal) const;
  const std::vector<Point>& points() const { return points_; }
  friend bool operator==(const EfficiencyCurve&, const EfficiencyCurve&) = default;

 private:
  std::vector<Point> points_;
};

/// Dense peak rates of matrix products, FLOP/s; 0 where the card has no such units.
struct MatrixRates {
  double bf16 = 0, fp16 = 0, tf32 = 0, fp32 = 0, fp8 = 0, int8 = 0;
  /// Of what bursts reach, what is left where products run for seconds on end: the card meets its power limit.
  double sustained = 1;

  /// The rate for operands of `dtype`: fp32 without TF32; nf4 is computed in bf16 (fp16 where there is no
  /// bf16). A type without units of its own runs as fp32.
  double of(DType dtype) const;
};

/// Peak bytes a second in one direction.
struct Links {
  double pcie = 0;     ///< GPU to host
  double nvlink = 0;   ///< GPU to the other GPUs of the node together; 0: none, traffic takes PCIe
  double network = 0;  ///< a GPU's share of the node's adapters
  Bytes multicast = 0;  ///< to which memory shared through the switch's multicast is rounded; 0: it has none
};

/// Device memory that NCCL takes outside the caching allocator. Each part is a whole number of 2 MiB pages,
/// in which NCCL gets memory; see communicator.h for the sums.
struct NcclMemory {
  Bytes library = 0;           ///< once a process, at the first communicator: kernels and state
  Bytes first_collective = 0;  ///< once a process: kernels loaded at the first collective
  Bytes first_p2p = 0;         ///< once a process: kernels loaded at the first send or receive
  Bytes communicator = 0;      ///< every communicator
  Bytes channel = 0;           ///< every channel that a communicator opens
  Bytes ring_send = 0,
        ring_receive = 0;  ///< every channel and neighbour, at a communicator's first collective
  Bytes p2p_send = 0,
        p2p_receive = 0;           ///< every channel and peer, at the first send to or receive from that peer
  std::int64_t ring_channels = 0;  ///< channels that collectives use
  std::int64_t p2p_channels = 0;   ///< channels that sends and receives use
  std::int64_t lone_channels = 0;  ///< channels of a communicator of one rank
};

/// Code of PyTorch's kernels, which the driver loads module by module when a kernel of it is first launched.
struct KernelModules {
  Bytes first = 0;     ///< at the first kernel of a process
  Bytes forward = 0;   ///< at the first pass through a model
  Bytes generate = 0;  ///< at the first generation with the trainer's own model: sampling
  Bytes train = 0;     ///< at the first training pass: backward kernels, the optimizer's

  Bytes total() const { return first + forward + generate + train; }
};

/// Seconds that do not depend on size.
struct Latencies {
  double operation = 0;      ///< of an operation's dispatch: eager execution issues no faster
  double host_transfer = 0;  ///< of a copy between host and GPU
  double collective = 0;     ///< of a collective's dispatch
  double node_hop = 0;       ///< between neighbours of a ring in one node, a step
  double network_hop = 0;    ///< between neighbours in different nodes, a step
  double kernel = 0;         ///< of a kernel's start and end on the device
};

/// Seconds of the host's thread by event, for a process that runs eager PyTorch with Transformers' modules.
/// `validator/pytorch/measure_times.py` measures what they are fitted to; the Python code around an operation
/// (modules, views, arguments) is in them.
struct HostTimes {
  double allocation = 0;        ///< a tensor that an operation makes
  double history = 0;           ///< more of it where memory history with stacks is recorded
  double launch = 0;            ///< an operation's kernels
  double product = 0;           ///< a matrix product beside that: a Linear module
  double gradient = 0;          ///< an operation of a backward pass beside that, its recording included
  double product_gradient = 0;  ///< a matrix product of a backward pass
  double model_call = 0;        ///< a forward pass of a model: masks, positions, outputs
  double token = 0;             ///< a step of `generate`
  double checkpoint = 0;        ///< a region under checkpointing, with or without gradients
  double recompute = 0;         ///< a checkpointed layer beside that: saving and recomputing
  double module_visit = 0;      ///< `train()` or `eval()`, a module
  double norm_parameter = 0;    ///< a parameter in the gradients' norm
  double foreach_parameter = 0, fused_parameter = 0, loop_parameter = 0;  ///< one in an optimizer's step
  double megatron_linear = 0;  ///< a Megatron layer's linear module beside its operations: what is Python of it
                               ///< and of the rest of its layer
  double megatron_linear_gradient = 0;  ///< its backward, with the hooks that add a gradient to its buffer
  double expert_exchange = 0;           ///< one of a dispatcher's exchanges: counts, splits, the other ranks
  double unshard = 0;          ///< FSDP: gathering a unit's parameters
  double reduce = 0;           ///< FSDP: reducing a unit's gradients
  double engine_step = 0;      ///< a rollout engine's scheduler, a step
  double engine_sequence = 0;  ///< and each of its sequences
  double segment = 0;          ///< getting memory of the driver, a call
  double segment_return = 0;   ///< giving it back, a call
};

/// Bytes a second of what the host's memory takes part in.
struct HostRates {
  double from_pageable = 0;  ///< copies to the GPU
  double to_pageable = 0;    ///< copies from the GPU into memory that was touched before
  double first_touch = 0;    ///< new memory, page by page
  double unmap = 0;          ///< giving it back
  double pin = 0;            ///< new pinned memory
  double optimizer = 0;      ///< what an optimizer on the host reads and writes
  double device_get = 0;     ///< cudaMalloc beside its fixed part
  double device_return = 0;  ///< cudaFree
  double device_map = 0;     ///< cuMemCreate and cuMemMap, and back
};

struct Hardware {
  std::string name;                             ///< as the driver reports it: `NVIDIA H100 80GB HBM3`
  std::vector<std::string> short_names;         ///< `h100`, `h100-80gb`
  std::map<std::string, std::string> versions;  ///< of what was measured: driver, cuda, pytorch, nccl
  std::map<std::string, std::string> sources;   ///< section of the file → where its figures come from

  Bytes total_memory = 0;  ///< as the driver reports it: cudaMemGetInfo's total
  Bytes page = 0;          ///< granularity of the driver's allocations
  std::int64_t multiprocessors = 0;
  std::int64_t capability = 0;  ///< compute capability times ten: 90 for 9.0; 0: not known
  MatrixRates matrix;
  double memory_bandwidth = 0;  ///< bytes/s, reads and writes together
  Links links;
  Bytes host_memory = 0;  ///< of a node; 0: not known

  Bytes context = 0;           ///< of a process's CUDA context
  KernelModules kernels;       ///< of PyTorch, beside the context
  Bytes cublas_handle = 0;     ///< outside the allocator, at a process's first matrix product
  Bytes cublas_workspace = 0;  ///< inside PyTorch's allocator, for each handle and stream
  Bytes graph_kernel = 0;      ///< of each kernel in a captured CUDA graph, as measured; 0: not known
  NcclMemory nccl;

  EfficiencyCurve matrix_efficiency, memory_efficiency, host_efficiency, collective_efficiency;
  Latencies latencies;
  HostTimes host_times;
  HostRates host_rates;
};

}  // namespace headroom

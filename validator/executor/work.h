#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/memory/operation.h"
#include "validator/cuda/cublas.h"
#include "validator/cuda/group.h"
#include "validator/cuda/handles.h"
#include "validator/kernels/adamw_step.h"
#include "validator/memory/gpu_device.h"
#include "validator/work_ledger.h"

namespace headroom::gpu {

/// An operand at its place: never more elements than its block holds behind `at` (expanded views name more).
struct Placed {
  char* at = nullptr;
  DType dtype = DType::bf16;
  std::int64_t elements = 0;  ///< in memory
  std::int64_t logical = 0;   ///< as the program sees them
  bool host = false;          ///< in host memory

  bool dense() const { return at != nullptr && elements == logical; }
  Bytes bytes() const { return bytes_of(dtype, elements); }
};

/// An Operation whose operands are found. Inputs that do not exist are left out.
struct PlacedOperation {
  const Operation* operation = nullptr;
  std::vector<Placed> inputs, outputs;

  /// Does it name a tensor on the host?
  bool on_host() const;
  Bytes host_bytes() const;
};

/// Adam's step out of an optimizer's operands: parameter, gradient, first and second moment, all as
/// long as the parameter at least. Nothing where they are not that.
std::optional<AdamW> adamw_of(const PlacedOperation& work);

/// Turns operations into work on the current card: each kind has a kernel in a table; what none covers has
/// its outputs written by the touching kernel. Only shapes and places matter, so indices are
/// drawn at random and layouts are taken as dense. Enqueues, and waits only for work of the host.
class Worker {
 public:
  /// Takes `kScratchBytes` of device memory for itself. Without `groups`
  /// (which outlive the worker) collectives have nobody to talk to: their outputs are touched.
  static Result<Worker> create(Streams& streams, Groups* groups = nullptr);

  /// The program's own cuBLAS workspace: products use it from now on.
  void use_workspace(void* workspace, Bytes bytes);
  Result<Done> run(const PlacedOperation& work);

  static constexpr Bytes kScratchBytes = 32 * kMiB;

 private:
  friend struct Kernels;
  Worker(Streams& streams, Groups* groups, Cublas cublas, DeviceBlock scratch)
      : streams_(&streams), groups_(groups), cublas_(std::move(cublas)), scratch_(std::move(scratch)) {}
  Result<Done> on_card(const PlacedOperation& work);
  Result<Done> on_host(const PlacedOperation& work);
  Status touch_outputs(const PlacedOperation& work, cudaStream_t stream);

  Streams* streams_;
  Groups* groups_;
  Cublas cublas_;
  DeviceBlock scratch_;
  void* workspace_ = nullptr;
  Bytes workspace_bytes_ = 0;
  std::uint64_t seed_ = 1;
  std::map<std::int64_t, std::int64_t> row_lengths_;  ///< of softmax inputs, by their elements
};

}  // namespace headroom::gpu

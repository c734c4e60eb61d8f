#pragma once

#include <cuda_runtime_api.h>

#include "validator/executor/work.h"

namespace headroom::gpu {

/// What a kind's entry did: the work, nothing because no kernel covers these operands, or of a collective
/// this rank's own part.
enum class Covered : std::uint8_t { no, yes, alone };

/// The table of kinds: one entry enqueues the kernels of one kind.
struct Kernels {
  using Entry = Result<Covered> (*)(Worker&, const PlacedOperation&, cudaStream_t);
  static Entry of(OperationKind kind);

  static Result<Covered> matmul(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> attention_forward(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> attention_backward(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> norm_forward(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> norm_backward(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> elementwise(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> reduce(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> softmax(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> cross_entropy(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> embedding(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> embedding_backward(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> gather(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> copy(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> dropout(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> sample(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> all_gather(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> reduce_scatter(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> all_reduce(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> all_to_all(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> broadcast(Worker&, const PlacedOperation&, cudaStream_t);
  static Result<Covered> optimizer(Worker&, const PlacedOperation&, cudaStream_t);

  /// A collective with nobody to talk to.
  static Result<Covered> alone(const PlacedOperation&, std::int64_t parts, cudaStream_t);
  /// The communicator of a collective; null where it runs alone or writes nothing.
  static Result<Communicator*> group_of(Worker&, const PlacedOperation&);
};

}  // namespace headroom::gpu

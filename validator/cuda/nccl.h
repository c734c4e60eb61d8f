#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <string>

#include "models/base/dtype.h"
#include "models/base/result.h"

namespace headroom::gpu {

/// What the first rank of a group makes and hands to the others, by whatever channel, so that they meet.
struct GroupId {
  std::array<char, 128> bytes{};
};

enum class Reduction { sum, average, max };

/// One NCCL communicator: this rank's membership in one group. NCCL is loaded on first use and reads its own
/// environment variables; nothing here sets any of them.
class Communicator {
 public:
  static Result<GroupId> make_id();
  /// Joins: returns once all `ranks` have joined. The current device is the communicator's.
  static Result<Communicator> join(const GroupId& id, int ranks, int rank);

  Communicator(Communicator&& other) noexcept
      : handle_(other.handle_), ranks_(other.ranks_), rank_(other.rank_) {
    other.handle_ = nullptr;
  }
  Communicator& operator=(Communicator&&) = delete;
  ~Communicator();

  /// Gives back what NCCL took, once all work is done. Without it, as after a failure, the destructor
  /// abandons the group.
  Status close();
  /// Gives it back without the other ranks, which may never come: after this one ran out of memory.
  Status abandon();

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }

  /// Collectives, enqueued on `stream`. `elements` counts what one rank contributes (all_gather,
  /// all_to_all: to one peer), receives (reduce_scatter) or holds (all_reduce, broadcast).
  Status all_reduce(const void* in, void* out, std::int64_t elements, DType, Reduction, cudaStream_t);
  Status all_gather(const void* in, void* out, std::int64_t elements, DType, cudaStream_t);
  Status reduce_scatter(const void* in, void* out, std::int64_t elements, DType, Reduction, cudaStream_t);
  Status broadcast(const void* in, void* out, std::int64_t elements, DType, int root, cudaStream_t);
  Status all_to_all(const void* in, void* out, std::int64_t elements, DType, cudaStream_t);
  Status send(const void* in, std::int64_t elements, DType, int peer, cudaStream_t);
  Status receive(void* out, std::int64_t elements, DType, int peer, cudaStream_t);

 private:
  Communicator(void* handle, int ranks, int rank) : handle_(handle), ranks_(ranks), rank_(rank) {}
  void* handle_;
  int ranks_, rank_;
};

/// `2.28.9` style version of the NCCL on this machine.
Result<std::string> nccl_version();

}  // namespace headroom::gpu

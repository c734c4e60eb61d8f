#pragma once

#include <cstdint>

#include "models/base/bytes.h"
#include "simulator/memory/component.h"
#include "simulator/memory/host_work.h"
#include "simulator/memory/operation.h"
#include "simulator/memory/repetition.h"

namespace headroom {

/// Work of a stream up to a point.
using StreamMark = std::uint64_t;

/// The small interface against which a tensor program is written, once. Behind it stands the virtual caching
/// allocator (simulator), a plain sum (closed form) or real CUDA memory (GPU probe); the program does not
/// know which.
///
/// One Memory is one process's view of one device. Calls come in program order from one thread. An executor
/// that runs out of memory remembers the first failure; from then on calls are accepted and do nothing, so
/// that programs need no error path of their own.
class Memory {
 public:
  virtual ~Memory() = default;

  /// A block of `requested` bytes for use on `stream` (0: the default stream; others are small ordinals).
  /// Zero bytes give kNoBlock and no event, as in PyTorch.
  virtual Block allocate(Bytes requested, Stream stream, Label label) = 0;
  /// Gives a block back; kNoBlock is ignored.
  virtual void free(Block block) = 0;
  /// The block is also in use on `stream`: a later free waits for that stream.
  virtual void record_stream(Block block, Stream stream) = 0;
  /// The same bytes now serve another purpose (an incoming gradient becomes `.grad`). No event.
  virtual void relabel(Block block, Label label) = 0;

  /// Host memory. Pinned blocks come from PyTorch's pinned allocator, which rounds and keeps them.
  virtual HostBlock allocate_host(Bytes requested, HostKind kind, Component component) = 0;
  virtual void free_host(HostBlock block) = 0;

  /// torch.cuda.empty_cache().
  virtual void empty_cache() = 0;
  /// torch.cuda.synchronize(): pending frees of other streams can complete.
  virtual void synchronize() = 0;

  /// cudaEventRecord: a mark behind the work given to `stream` so far; each is waited for at most once.
  virtual StreamMark record_event(Stream /*stream*/) { return 0; }
  /// cudaEventSynchronize: the host goes on when that work is done. A host that never waits runs ahead of the
  /// device, and blocks whose free waits for a stream can't be used again until it has caught up.
  virtual void wait_event(StreamMark /*mark*/) {}
  /// cudaStreamWaitEvent: what is given to `stream` from now on begins after what `other` has been given so far.
  virtual void wait_stream(Stream /*stream*/, Stream /*other*/) {}

  /// `stream` sends to and receives from other processes' devices. Their hosts do not wait for one another, so nothing
  /// that it is in use with counts as done before the driver makes this host wait.
  virtual void wait_for_peers(Stream /*stream*/) {}

  /// For programs that repeat themselves: null when everything must be executed.
  virtual Repetition* repetition() { return nullptr; }

  /// True when `run` does something: programs may skip building operations otherwise.
  virtual bool wants_operations() const { return false; }
  /// The work between the allocations: called after an operation's outputs and temporaries exist and before
  /// its temporaries go.
  virtual void run(const Operation&) {}
  /// Work of the host alone, `times` over.
  virtual void host_work(HostWork /*what*/, std::int64_t /*times*/) {}
};

}  // namespace headroom

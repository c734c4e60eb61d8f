#pragma once

#include <cstdint>
#include <vector>

#include "simulator/hardware/hardware.h"

namespace headroom {

/// Device memory of NCCL, as sums of the parts in `NcclMemory`.
///
/// NCCL opens a number of channels per communicator. Creating the communicator takes three pages a channel;
/// the first collective connects a ring: in every channel one neighbour to send to and one to receive from,
/// whose buffers (LL 0.5 MiB, LL128 4.7 MiB, Simple 4 MiB, together rounded to pages) lie with the receiver;
/// a first send or receive connects that peer in every point-to-point channel. A ring has two neighbours
/// however many ranks it has, so the size of the group does not matter; trees and NVLink SHARP, which some
/// small reductions use, are not counted.

/// What a communicator of `ranks` ranks (≥ 1) allocates from its creation to the end of its first collective,
/// in order; without the once-a-process parts. Channels are opened page by page; a ring's buffers are one
/// allocation a channel and direction.
std::vector<Bytes> communicator_allocations(const NcclMemory& nccl, std::int64_t ranks);

/// Their sum.
Bytes communicator_bytes(const NcclMemory& nccl, std::int64_t ranks);

/// What the first communicator of a process adds: the library, and the kernels of collectives where it has more
/// than one rank (one rank copies).
Bytes first_communicator_bytes(const NcclMemory& nccl, std::int64_t ranks);

/// What sending to `send_peers` and receiving from `receive_peers` ranks adds to one communicator (pipelines,
/// all-to-all); without the once-a-process `first_p2p`.
Bytes point_to_point_bytes(const NcclMemory& nccl, std::int64_t send_peers, std::int64_t receive_peers);

}  // namespace headroom

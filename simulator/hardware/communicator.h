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
/// a first send or receive connects that peer in every channel that peers have. A ring has two neighbours
/// however many ranks it has, so the size of the group does not matter; trees and NVLink SHARP, which some
/// small reductions use, are not counted.
///
/// Across nodes, from NCCL 2.28's sources (graph/connect.cc, graph/paths.cc, transport/net.cc): a ring enters and
/// leaves a node through one network card a search channel, so there are at most 16 channels, four for each GPU that a
/// node has in the communicator (a card a GPU is taken); where a channel leaves the node the sender holds buffers too.
/// A peer then has one or two channels, fewer the more ranks there are, wherever it is. Peers on other nodes share
/// buffers: one set to receive, and one to send for each GPU of the node, whose sends go through the GPU beside the
/// right card.

/// The ranks of a communicator: over so many nodes, evenly.
struct Span {
  std::int64_t ranks = 1, nodes = 1;
  std::int64_t in_a_node() const { return ranks / nodes; }
};

/// Of `ranks` ranks, each `apart` ranks from the next, where a node has `node` (≥ 1).
Span span_of(std::int64_t ranks, std::int64_t apart, std::int64_t node);

/// What a communicator allocates from its creation to the end of its first collective,
/// in order; without the once-a-process parts. Channels are opened page by page; a ring's buffers are one
/// allocation a channel and direction.
std::vector<Bytes> communicator_allocations(const NcclMemory& nccl, Span span);

/// Their sum.
Bytes communicator_bytes(const NcclMemory& nccl, Span span);

/// What the first communicator of a process adds: the library, and the kernels of collectives where it has more
/// than one rank (one rank copies).
Bytes first_communicator_bytes(const NcclMemory& nccl, std::int64_t ranks);

/// What sending to `send_peers` and receiving from `receive_peers` ranks adds to one communicator (pipelines,
/// all-to-all), those of the same node first; without the once-a-process `first_p2p`.
Bytes point_to_point_bytes(const NcclMemory& nccl, Span span, std::int64_t send_peers, std::int64_t receive_peers);

}  // namespace headroom

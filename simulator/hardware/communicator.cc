#include "simulator/hardware/communicator.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace headroom {
namespace {

/// What the driver maps at least.
constexpr Bytes kPage = 2 * kMiB;

/// Channels across nodes: at most, and for each GPU that a node has (a searched one is doubled, and again from
/// Hopper on while there are fewer than the most).
constexpr std::int64_t kNetworkChannels = 16, kChannelsAGpu = 4;
/// Buffers that peers on other nodes share, a channel: 16 chunks of 128 KiB.
constexpr Bytes kSharedBuffer = 2 * kMiB;

std::int64_t ring_channels(const NcclMemory& nccl, Span span) {
  if (span.nodes == 1) return nccl.ring_channels;
  return std::min({nccl.ring_channels, kNetworkChannels, kChannelsAGpu * span.in_a_node()});
}

std::int64_t p2p_channels(const NcclMemory& nccl, Span span) {
  if (span.nodes == 1) return nccl.p2p_channels;
  const auto rings = static_cast<std::uint64_t>(ring_channels(nccl, span));
  return std::min(nccl.p2p_channels, static_cast<std::int64_t>(std::bit_ceil(rings)));
}

/// Of one peer: across nodes two, or one where two would be more than four operations a channel.
std::int64_t peer_channels(const NcclMemory& nccl, Span span) {
  const std::int64_t all = p2p_channels(nccl, span);
  if (span.nodes == 1) return all;
  return std::min(all, std::int64_t{2 * span.ranks > 4 * all ? 1 : 2});
}

}  // namespace

Span span_of(std::int64_t ranks, std::int64_t apart, std::int64_t node) {
  const std::int64_t nodes = std::min(ranks, ceil_div(ranks * apart, std::max<std::int64_t>(1, node)));
  return {.ranks = ranks, .nodes = std::max<std::int64_t>(1, nodes)};
}

std::vector<Bytes> communicator_allocations(const NcclMemory& nccl, Span span) {
  std::vector<Bytes> out;
  const auto pages = [&out](Bytes bytes) {
    for (; bytes > 0; bytes -= kPage) out.push_back(std::min(bytes, kPage));
  };
  pages(nccl.communicator);
  const std::int64_t rings = ring_channels(nccl, span);
  const std::int64_t opened =
      span.ranks <= 1 ? nccl.lone_channels : std::max(rings, p2p_channels(nccl, span));
  for (std::int64_t i = 0; i < opened; ++i) pages(nccl.channel);
  // Of a node's GPUs each leads its share of the channels out of it.
  const std::int64_t leaving = span.nodes > 1 ? ceil_div(rings, span.in_a_node()) : 0;
  for (std::int64_t i = 0; i < rings && span.ranks > 1; ++i)
    for (const Bytes buffer : {i < leaving ? nccl.ring_receive : nccl.ring_send, nccl.ring_receive})
      if (buffer > 0) out.push_back(buffer);
  return out;
}

Bytes communicator_bytes(const NcclMemory& nccl, Span span) {
  const std::vector<Bytes> all = communicator_allocations(nccl, span);
  return std::accumulate(all.begin(), all.end(), Bytes{0});
}

Bytes first_communicator_bytes(const NcclMemory& nccl, std::int64_t ranks) {
  return nccl.library + (ranks > 1 ? nccl.first_collective : 0);
}

Bytes point_to_point_bytes(const NcclMemory& nccl, Span span, std::int64_t send_peers, std::int64_t receive_peers) {
  const std::int64_t near = span.nodes > 1 ? span.in_a_node() - 1 : std::max(send_peers, receive_peers);
  const Bytes shared = p2p_channels(nccl, span) * kSharedBuffer;
  Bytes out = peer_channels(nccl, span) *
              (std::min(send_peers, near) * nccl.p2p_send + std::min(receive_peers, near) * nccl.p2p_receive);
  if (send_peers > near) out += span.in_a_node() * shared;
  if (receive_peers > near) out += shared;
  return out;
}

}  // namespace headroom

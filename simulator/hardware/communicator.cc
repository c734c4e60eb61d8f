#include "simulator/hardware/communicator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
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

/// Minor releases of PyTorch 2 and of the NCCL 2 that their wheels bring.
constexpr std::array<std::array<int, 2>, 8> kWheels = {
    {{0, 14}, {1, 18}, {2, 19}, {3, 20}, {5, 21}, {7, 26}, {8, 27}, {11, 28}}};
/// The first that connects at run time, and the first with smaller buffers of NVLink SHARP.
constexpr int kConnectsLate = 22, kSmallMulticast = 21;
/// Of them, to reduce and to spread: buffers, and flags of a page.
constexpr Bytes kMulticast = 2 * (4 + 2) * kMiB, kMulticastSmall = 2 * (1 + 2) * kMiB;
constexpr std::int64_t kFewestThatReduce = 3;

/// 21 of `2.21.5`; -1: of another form.
int minor_of(std::string_view release) {
  int out = -1;
  if (release.starts_with("2.")) std::from_chars(release.data() + 2, release.data() + release.size(), out);
  return out;
}

int wheel_of(int torch) {
  int out = -1;
  for (const auto& [since, nccl] : kWheels)
    if (torch >= since) out = nccl;
  return out;
}

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

NcclMemory nccl_of(const Hardware& hardware, std::string_view nccl, std::string_view torch) {
  NcclMemory out = hardware.nccl;
  const int release = nccl.empty() ? wheel_of(minor_of(torch)) : minor_of(nccl);
  if (release < 0 || release >= kConnectsLate) return out;
  out.connects_at_once = true;
  if (hardware.links.multicast == 0) return out;
  out.multicast = release < kSmallMulticast ? kMulticast : kMulticastSmall;
  out.multicast_page = hardware.links.multicast;
  return out;
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
  if (nccl.connects_at_once && span.ranks >= kFewestThatReduce)
    for (std::int64_t i = 0; i < rings; ++i)
      for (const Bytes buffer : {nccl.ring_send, nccl.ring_receive})
        if (buffer > 0) out.push_back(buffer);
  const std::int64_t heads = span.in_a_node();
  if (nccl.multicast > 0 && heads >= kFewestThatReduce)
    out.push_back(ceil_div(heads * rings * nccl.multicast, nccl.multicast_page) * nccl.multicast_page);
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

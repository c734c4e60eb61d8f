#include "simulator/hardware/communicator.h"

#include <algorithm>
#include <numeric>

namespace headroom {
namespace {

/// What the driver maps at least.
constexpr Bytes kPage = 2 * kMiB;

}  // namespace

std::vector<Bytes> communicator_allocations(const NcclMemory& nccl, std::int64_t ranks) {
  std::vector<Bytes> out;
  const auto pages = [&out](Bytes bytes) {
    for (; bytes > 0; bytes -= kPage) out.push_back(std::min(bytes, kPage));
  };
  pages(nccl.communicator);
  const std::int64_t opened =
      ranks <= 1 ? nccl.lone_channels : std::max(nccl.ring_channels, nccl.p2p_channels);
  for (std::int64_t i = 0; i < opened; ++i) pages(nccl.channel);
  for (std::int64_t i = 0; i < nccl.ring_channels && ranks > 1; ++i)
    for (const Bytes buffer : {nccl.ring_send, nccl.ring_receive})
      if (buffer > 0) out.push_back(buffer);
  return out;
}

Bytes communicator_bytes(const NcclMemory& nccl, std::int64_t ranks) {
  const std::vector<Bytes> all = communicator_allocations(nccl, ranks);
  return std::accumulate(all.begin(), all.end(), Bytes{0});
}

Bytes first_communicator_bytes(const NcclMemory& nccl, std::int64_t ranks) {
  return nccl.library + (ranks > 1 ? nccl.first_collective : 0);
}

Bytes point_to_point_bytes(const NcclMemory& nccl, std::int64_t send_peers, std::int64_t receive_peers) {
  return nccl.p2p_channels * (send_peers * nccl.p2p_send + receive_peers * nccl.p2p_receive);
}

}  // namespace headroom

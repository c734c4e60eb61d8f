#include "simulator/hardware/communicator.h"

#include <algorithm>

namespace headroom {

Bytes communicator_bytes(const NcclMemory& nccl, std::int64_t ranks) {
  if (ranks <= 1) return nccl.communicator + nccl.lone_channels * nccl.channel;
  const std::int64_t opened = std::max(nccl.ring_channels, nccl.p2p_channels);
  return nccl.communicator + opened * nccl.channel +
         nccl.ring_channels * (nccl.ring_send + nccl.ring_receive);
}

Bytes first_communicator_bytes(const NcclMemory& nccl) {
  return nccl.library + nccl.first_collective;
}

Bytes point_to_point_bytes(const NcclMemory& nccl, std::int64_t send_peers, std::int64_t receive_peers) {
  return nccl.p2p_channels * (send_peers * nccl.p2p_send + receive_peers * nccl.p2p_receive);
}

}  // namespace headroom

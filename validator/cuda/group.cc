#include "validator/cuda/group.h"

#include <algorithm>
#include <cstring>

namespace headroom::gpu {

Result<Communicator> join_group(launch::Rendezvous& ranks) {
  GroupId id;
  if (ranks.place().rank == 0) {
    HEADROOM_ASSIGN(id, Communicator::make_id());
  }
  HEADROOM_ASSIGN(const std::string text, ranks.broadcast(std::string(id.bytes.data(), id.bytes.size())));
  std::memcpy(id.bytes.data(), text.data(), std::min(text.size(), id.bytes.size()));
  return Communicator::join(id, ranks.place().ranks, ranks.place().rank);
}

}  // namespace headroom::gpu

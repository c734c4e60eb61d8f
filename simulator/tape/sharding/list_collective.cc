#include "simulator/tape/sharding/list_collective.h"

namespace headroom::tape {
namespace {

const std::uint16_t kJoined = operation_name("c10d::newLikeFlat");

}  // namespace

void join_list(Tape& tape, std::int64_t elements, DType dtype, Stream communication) {
  const ComponentScope component(tape, Component::communication);
  const Tensor joined = tape.empty({elements}, dtype, kJoined);
  tape.memory().record_stream(joined->storage->block, communication);
}

}  // namespace headroom::tape

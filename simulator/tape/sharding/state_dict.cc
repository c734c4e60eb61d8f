#include "simulator/tape/sharding/state_dict.h"

namespace headroom::tape {
namespace {

const std::uint16_t kStaged = operation_name("weight_sync::staged_shard"),
                    kWhole = operation_name("weight_sync::full_tensor"),
                    kCast = operation_name("weight_sync::cast"),
                    kBucket = operation_name("weight_sync::bucket");

}  // namespace

Shape shard_shape(const Shape& whole, std::int64_t ranks) {
  Shape out = whole.rank == 0 ? Shape{1} : whole;
  out.size[0] = ceil_div(out.size[0], ranks);
  set_contiguous(out);
  return out;
}

void send(Tape& tape, std::vector<StateTensor> state, const Sending& how) {
  const ComponentScope component(tape, Component::staging);
  Tensor bucket;
  if (how.bucket > 0) bucket = tape.empty({how.bucket}, DType::uint8, kBucket);
  Tensor sent;
  for (const StateTensor& one : state) {
    const DType stored = one.part.dtype();
    Tensor staged, whole;
    if (one.part->storage->device != Device::gpu) staged = tape.empty(one.part.shape(), stored, kStaged);
    if (how.ranks > 1) whole = tape.empty(one.whole, stored, kWhole);
    if (!whole.defined()) whole = std::move(staged);
    staged.reset();
    if (how.cast && *how.cast != stored) {
      const Tensor wide = std::move(whole);
      whole = tape.empty(one.whole, *how.cast, kCast);
    }
    sent = std::move(whole);
  }
  while (!state.empty()) state.pop_back();
  bucket.reset();
  tape.memory().empty_cache();
}

}  // namespace headroom::tape

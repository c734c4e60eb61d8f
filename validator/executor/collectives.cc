#include <algorithm>

#include "validator/executor/kernels.h"
#include "validator/kernels/transfer.h"

// Collectives over the ranks that are present. A message has the size that it has in the job: where fewer
// ranks are present than the job has, the parts of the others do not come, and their place is written.
namespace headroom::gpu {
namespace {

/// NCCL has no 4-bit or boolean type: those travel as bytes.
struct Message {
  DType dtype;
  std::int64_t elements;
};

Message message(const Placed& placed) {
  switch (placed.dtype) {
    case DType::fp32:
    case DType::fp16:
    case DType::bf16:
    case DType::fp64:
    case DType::int64:
    case DType::int32:
      return {placed.dtype, placed.elements};
    default:
      return {DType::uint8, placed.bytes()};
  }
}

Status touch_rest(const Placed& out, std::int64_t done, DType dtype, cudaStream_t stream) {
  const Bytes skip = bytes_of(dtype, done);
  return skip < out.bytes() ? touch(out.at + skip, out.bytes() - skip, stream) : Status{};
}

}  // namespace

Result<Communicator*> Kernels::group_of(Worker& worker, const PlacedOperation& work) {
  const std::int64_t ranks = work.operation->sizes[0];
  if (worker.groups_ == nullptr || ranks < 2 || work.outputs.empty()) return nullptr;
  return worker.groups_->of(ranks);
}

// This rank's part, one of `parts` of the output, is copied to the first place; the others' are written.
Result<Covered> Kernels::alone(const PlacedOperation& work, std::int64_t parts, cudaStream_t stream) {
  if (work.outputs.empty()) return Covered::no;
  const Placed& out = work.outputs[0];
  const Message whole = message(out);
  Bytes own = bytes_of(whole.dtype, whole.elements / std::max<std::int64_t>(parts, 1));
  if (!work.inputs.empty() && work.inputs[0].at != out.at) {
    own = std::min(own, work.inputs[0].bytes());
    if (own > 0) HEADROOM_TRY(gpu::copy(work.inputs[0].at, out.at, own, stream));
  }
  if (own < out.bytes()) HEADROOM_TRY(touch(out.at + own, out.bytes() - own, stream));
  return Covered::alone;
}

// Output: the whole; the input is this rank's part, or where the program names none its place in the output.
Result<Covered> Kernels::all_gather(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  HEADROOM_ASSIGN(Communicator * group, group_of(worker, work));
  if (group == nullptr) return alone(work, work.operation->sizes[0], stream);
  const Placed& out = work.outputs[0];
  const Message whole = message(out);
  const std::int64_t part = whole.elements / work.operation->sizes[0];
  if (part == 0) return Covered::no;
  const char* from = out.at + bytes_of(whole.dtype, part * group->rank());
  if (!work.inputs.empty() && work.inputs[0].bytes() >= bytes_of(whole.dtype, part)) from = work.inputs[0].at;
  HEADROOM_TRY(group->all_gather(from, out.at, part, whole.dtype, stream));
  HEADROOM_TRY(touch_rest(out, part * group->ranks(), whole.dtype, stream));
  return Covered::yes;
}

Result<Covered> Kernels::reduce_scatter(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.empty()) return Covered::no;
  HEADROOM_ASSIGN(Communicator * group, group_of(worker, work));
  if (group == nullptr) return alone(work, 1, stream);
  const Placed &in = work.inputs[0], &out = work.outputs[0];
  const std::int64_t part = std::min(out.elements, in.elements / work.operation->sizes[0]);
  if (part == 0 || in.dtype != out.dtype) return Covered::no;
  HEADROOM_TRY(group->reduce_scatter(in.at, out.at, part, out.dtype, Reduction::average, stream));
  return Covered::yes;
}

Result<Covered> Kernels::all_reduce(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  HEADROOM_ASSIGN(Communicator * group, group_of(worker, work));
  if (group == nullptr) return alone(work, 1, stream);
  const Placed& out = work.outputs[0];
  const Message whole = message(out);
  const bool apart = !work.inputs.empty() && work.inputs[0].bytes() >= out.bytes();
  HEADROOM_TRY(group->all_reduce(apart ? work.inputs[0].at : out.at, out.at, whole.elements, whole.dtype,
                                 Reduction::sum, stream));
  return Covered::yes;
}

Result<Covered> Kernels::all_to_all(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  if (work.inputs.empty()) return Covered::no;
  HEADROOM_ASSIGN(Communicator * group, group_of(worker, work));
  if (group == nullptr) return alone(work, work.operation->sizes[0], stream);
  const Placed &in = work.inputs[0], &out = work.outputs[0];
  const Message whole = message(out);
  const std::int64_t part = std::min(whole.elements, message(in).elements) / work.operation->sizes[0];
  if (part == 0 || in.dtype != out.dtype) return Covered::no;
  HEADROOM_TRY(group->all_to_all(in.at, out.at, part, whole.dtype, stream));
  HEADROOM_TRY(touch_rest(out, part * group->ranks(), whole.dtype, stream));
  return Covered::yes;
}

Result<Covered> Kernels::broadcast(Worker& worker, const PlacedOperation& work, cudaStream_t stream) {
  HEADROOM_ASSIGN(Communicator * group, group_of(worker, work));
  if (group == nullptr) return alone(work, 1, stream);
  const Placed& out = work.outputs[0];
  const Message whole = message(out);
  HEADROOM_TRY(group->broadcast(out.at, out.at, whole.elements, whole.dtype, 0, stream));
  return Covered::yes;
}

}  // namespace headroom::gpu

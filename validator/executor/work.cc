#include "validator/executor/work.h"

#include "simulator/tape/core/names.h"
#include "validator/executor/kernels.h"
#include "validator/kernels/transfer.h"

namespace headroom::gpu {

Result<Worker> Worker::create(Streams& streams, Groups* groups) {
  HEADROOM_ASSIGN(DeviceBlock scratch, make_device_block(kScratchBytes));
  HEADROOM_ASSIGN(Cublas cublas, Cublas::create());
  return Worker(streams, groups, std::move(cublas), std::move(scratch));
}

void Worker::use_workspace(void* workspace, Bytes bytes) {
  workspace_ = workspace;
  workspace_bytes_ = bytes;
}

Status Worker::run(const PlacedOperation& work) {
  const Operation& operation = *work.operation;
  WorkCount& count = counts_[Kernels::name(operation.kind)];
  ++count.operations;
  count.bytes += static_cast<double>(operation.bytes);
  count.flops += operation.flops;
  HEADROOM_ASSIGN(const cudaStream_t stream, streams_->get(operation.stream));
  Covered covered = Covered::no;
  if (const Kernels::Entry entry = Kernels::of(operation.kind); entry != nullptr) {
    HEADROOM_ASSIGN(covered, entry(*this, work, stream));
  }
  if (covered == Covered::yes) return {};
  ++count.touched;
  ++touched_[tape::operation_text(operation.label.operation)];
  for (const Placed& output : work.outputs) {
    if (output.bytes() > 0) HEADROOM_TRY(touch(output.at, output.bytes(), stream));
  }
  return {};
}

}  // namespace headroom::gpu

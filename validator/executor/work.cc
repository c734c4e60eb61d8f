#include "validator/executor/work.h"

#include <algorithm>
#include <cstring>

#include "validator/executor/host_work.h"
#include "validator/executor/kernels.h"
#include "validator/kernels/transfer.h"

namespace headroom::gpu {
Bytes PlacedOperation::host_bytes() const {
  Bytes sum = 0;
  for (const auto* operands : {&inputs, &outputs})
    for (const Placed& placed : *operands)
      if (placed.host) sum += placed.bytes();
  return sum;
}

bool PlacedOperation::on_host() const {
  const auto host = [](const Placed& placed) { return placed.host; };
  return std::any_of(inputs.begin(), inputs.end(), host) || std::any_of(outputs.begin(), outputs.end(), host);
}

std::optional<AdamW> adamw_of(const PlacedOperation& work) {
  const auto& in = work.inputs;
  if (in.size() < 4 || in[2].dtype != in[3].dtype) return std::nullopt;
  const std::int64_t n = in[0].elements;
  if (std::any_of(in.begin(), in.begin() + 4, [n](const Placed& one) { return one.elements < n; }))
    return std::nullopt;
  return AdamW{.weight_dtype = in[0].dtype,
               .gradient_dtype = in[1].dtype,
               .state_dtype = in[2].dtype,
               .n = n,
               .parameter = in[0].at,
               .gradient = in[1].at,
               .first = in[2].at,
               .second = in[3].at};
}

Result<Worker> Worker::create(Streams& streams, Groups* groups) {
  HEADROOM_ASSIGN(DeviceBlock scratch, make_device_block(kScratchBytes));
  HEADROOM_ASSIGN(Cublas cublas, Cublas::create());
  return Worker(streams, groups, std::move(cublas), std::move(scratch));
}

void Worker::use_workspace(void* workspace, Bytes bytes) {
  workspace_ = workspace;
  workspace_bytes_ = bytes;
}

Result<Done> Worker::run(const PlacedOperation& work) {
  return work.on_host() ? on_host(work) : on_card(work);
}

Result<Done> Worker::on_card(const PlacedOperation& work) {
  const Operation& operation = *work.operation;
  HEADROOM_ASSIGN(const cudaStream_t stream, streams_->get(operation.stream));
  Covered covered = Covered::no;
  if (const Kernels::Entry entry = Kernels::of(operation.kind); entry != nullptr) {
    HEADROOM_ASSIGN(covered, entry(*this, work, stream));
  }
  if (covered == Covered::yes) return Done::kernel;
  if (covered == Covered::alone) return Done::alone;
  HEADROOM_TRY(touch_outputs(work, stream));
  return Done::touched;
}

// The card first finishes what it was given: transfers to the host are among it.
Result<Done> Worker::on_host(const PlacedOperation& work) {
  HEADROOM_TRY(HEADROOM_CUDA(cudaDeviceSynchronize()));
  if (work_on_host(work)) return Done::host;
  HEADROOM_ASSIGN(const cudaStream_t stream, streams_->get(work.operation->stream));
  HEADROOM_TRY(touch_outputs(work, stream));
  return Done::touched;
}

Status Worker::touch_outputs(const PlacedOperation& work, cudaStream_t stream) {
  for (const Placed& output : work.outputs) {
    if (output.bytes() <= 0) continue;
    if (output.host)
      std::memset(output.at, 0, static_cast<std::size_t>(output.bytes()));
    else
      HEADROOM_TRY(touch(output.at, output.bytes(), stream));
  }
  return {};
}

}  // namespace headroom::gpu
